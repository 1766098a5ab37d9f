package logs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds on the log.
const (
	// Window is how long lines of one message are counted together.
	Window = time.Minute
	// First is how many lines of a message are written in a window, FirstDebug of one at debug
	// level, which somebody asked for.
	First, FirstDebug = 20, 1000
	// FirstForeign is how many lines of a message are written in a window that a library made,
	// Foreign how many of all its messages, whatever they say.
	FirstForeign, Foreign = 5, 50
	// MaxMessages is how many messages are told apart in a window; beyond they count as one.
	MaxMessages = 1024
	// MaxText is how much of a text is written, in bytes.
	MaxText = 2048
)

// ComponentKey is the attribute that tells which library a message comes from.
const ComponentKey = "component"

// Counted writes the first lines of a message to another handler and counts the others, of which it
// tells at the window's end. Make one by [New]; whoever made it calls Close at the end.
type Counted struct {
	next  slog.Handler
	book  *book
	scope string // the component, or empty
}

// book is what all handlers made from one share.
type book struct {
	clock func() time.Time
	base  slog.Handler

	mu       sync.Mutex // guards the rest, and not the writing of lines
	messages map[message]*count
	timer    *time.Timer // goes off at the end of the first window that has something to tell
	swept    time.Time   // when messages were last forgotten
	closed   bool
}

// message is what is counted together.
type message struct {
	level     slog.Level
	component string
	text      string
}

// count is how often a message came in its window.
type count struct {
	begin   time.Time
	written int
	dropped int
}

// New returns a handler before next.
func New(next slog.Handler) *Counted { return newCounted(next, time.Now) }

func newCounted(next slog.Handler, clock func() time.Time) *Counted {
	return &Counted{next: next, book: &book{clock: clock, base: next, messages: make(map[message]*count)}}
}

// Enabled implements slog.Handler.
func (h *Counted) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler. An attribute "component" says whose messages these are.
func (h *Counted) WithAttrs(attrs []slog.Attr) slog.Handler {
	other := *h
	other.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == ComponentKey {
			other.scope = a.Value.String()
		}
	}
	return &other
}

// WithGroup implements slog.Handler.
func (h *Counted) WithGroup(name string) slog.Handler {
	other := *h
	other.next = h.next.WithGroup(name)
	return &other
}

// Handle implements slog.Handler.
func (h *Counted) Handle(ctx context.Context, r slog.Record) error {
	if !h.book.admit(message{r.Level, h.scope, cut(r.Message, 256)}) { //nolint:contextcheck // what is told later is told in nobody's name
		return nil
	}
	short := slog.NewRecord(r.Time, r.Level, cut(r.Message, MaxText), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a.Value = bounded(a.Value)
		short.AddAttrs(a)
		return true
	})
	return h.next.Handle(ctx, short)
}

// admit counts a line and reports whether it is written.
func (b *book) admit(m message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	switch {
	case m.component != "":
		return b.take(m, FirstForeign, now) && b.take(message{component: m.component, text: "others of the component"}, Foreign, now)
	case m.level < slog.LevelInfo:
		return b.take(m, FirstDebug, now)
	default:
		return b.take(m, First, now)
	}
}

// take counts one of a message. The caller holds b.mu.
func (b *book) take(m message, most int, now time.Time) bool {
	c := b.messages[m]
	if c == nil && len(b.messages) >= MaxMessages && now.Sub(b.swept) >= time.Second {
		b.forget(now)
	}
	if c == nil && len(b.messages) >= MaxMessages {
		m = message{level: m.level, text: "other messages"}
		c = b.messages[m]
	}
	if c == nil {
		c = &count{begin: now}
		b.messages[m] = c
	}
	if now.Sub(c.begin) >= Window && c.dropped == 0 {
		*c = count{begin: now}
	}
	if c.written < most {
		c.written++
		return true
	}
	c.dropped++
	b.wake(now)
	return false
}

// forget drops what was not met for a window. The caller holds b.mu.
func (b *book) forget(now time.Time) {
	b.swept = now
	for m, c := range b.messages {
		if now.Sub(c.begin) >= Window && c.dropped == 0 {
			delete(b.messages, m)
		}
	}
}

// wake sees to it that what was counted is told. The caller holds b.mu.
func (b *book) wake(now time.Time) {
	if b.timer != nil || b.closed {
		return
	}
	next := Window
	for _, c := range b.messages {
		if c.dropped > 0 {
			next = min(next, c.begin.Add(Window).Sub(now))
		}
	}
	b.timer = time.AfterFunc(max(next, 0), func() { b.tell(false) })
}

// tell writes how often messages came whose window is over, or all of them.
func (b *book) tell(all bool) {
	b.mu.Lock()
	b.timer = nil
	now := b.clock()
	told := make(map[message]count)
	left := false
	for m, c := range b.messages {
		switch {
		case c.dropped == 0:
		case all || now.Sub(c.begin) >= Window:
			told[m] = *c
			delete(b.messages, m)
		default:
			left = true
		}
	}
	if left {
		b.wake(now)
	}
	b.mu.Unlock()
	for m, c := range told {
		r := slog.NewRecord(now, m.level, "log message repeated", 0)
		r.AddAttrs(slog.String("message", m.text), slog.Int("times", c.dropped), slog.Duration("over", now.Sub(c.begin).Round(time.Second)))
		if m.component != "" {
			r.AddAttrs(slog.String(ComponentKey, m.component))
		}
		if b.base.Enabled(context.Background(), r.Level) {
			_ = b.base.Handle(context.Background(), r)
		}
	}
}

// Close tells what was counted so far. Lines that come later are bounded still, and not told of.
func (h *Counted) Close() {
	h.book.mu.Lock()
	h.book.closed = true
	if h.book.timer != nil {
		h.book.timer.Stop()
	}
	h.book.mu.Unlock()
	h.book.tell(true)
}

// bounded cuts a value that is a text, or becomes one, such as an error that holds what a site
// sent.
func bounded(v slog.Value) slog.Value {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		if s := v.String(); len(s) > MaxText {
			return slog.StringValue(cut(s, MaxText))
		}
	case slog.KindAny:
		switch x := v.Any().(type) {
		case error:
			if s := x.Error(); len(s) > MaxText {
				return slog.StringValue(cut(s, MaxText))
			}
		case fmt.Stringer:
			if s := fmt.Sprint(x); len(s) > MaxText {
				return slog.StringValue(cut(s, MaxText))
			}
		}
	default:
	}
	return v
}

// cut cuts a text to at most n bytes, at a character's end, and says how long it was.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:end], len(s))
}
