// Package logs limits how many lines a process logs and how long they are, because sites and peers
// can cause log lines: a server may send an invalid frame a million times.
package logs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// Limits of the log.
const (
	// Window is the time in which lines are counted.
	Window = time.Minute
	// First is how many lines with one message are written in a window, FirstDebug at debug level. A
	// library has the limit for all its messages, which may contain data of sites and peers.
	First, FirstDebug = 20, 1000
	// MaxMessages is how many messages are counted separately; further ones share one limit.
	MaxMessages = 1024
	// MaxText is the length of a message or attribute in bytes.
	MaxText = 2048
)

// ComponentKey is the attribute that names the library that logged a line.
const ComponentKey = "component"

// Handler writes the first lines of each message in a window to another handler. At the end of the
// window it writes how many were suppressed.
type Handler struct {
	next      slog.Handler
	component string     // set for a library
	least     slog.Level // lines below this level are dropped
	limiter   *limiter
}

// limiter counts the lines of a Handler and of those derived from it.
type limiter struct {
	base slog.Handler // without attributes and groups of a caller

	mu    sync.Mutex // not held while a line is written
	lines map[source]int
	begin time.Time   // of the window
	timer *time.Timer // ends the window
}

// source is what lines are counted by: a message, or the component of a library.
type source struct {
	level     slog.Level
	key, text string
}

func (s source) limit() int {
	if s.level < slog.LevelInfo {
		return FirstDebug
	}
	return First
}

// New returns a handler that writes to next, which should have [Truncate] as its ReplaceAttr.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, least: slog.LevelDebug, limiter: &limiter{base: next, lines: make(map[source]int)}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.least && h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.with(h.next.WithAttrs(attrs)) }

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler { return h.with(h.next.WithGroup(name)) }

func (h *Handler) with(next slog.Handler) *Handler {
	other := *h
	other.next = next
	return &other
}

func (h *Handler) library(component string, least slog.Level) *Handler {
	other := h.with(h.next.WithAttrs([]slog.Attr{slog.String(ComponentKey, component)}))
	other.component, other.least = component, least
	return other
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	s := source{r.Level, "message", cut(r.Message, 256)}
	if h.component != "" {
		s = source{r.Level, ComponentKey, h.component}
	}
	if !h.limiter.admit(s) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// admit counts a line and reports whether it is within its limit.
func (l *limiter) admit(s source) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		l.begin, l.timer = time.Now(), time.AfterFunc(Window, l.flush)
	}
	if l.lines[s] == 0 && len(l.lines) >= MaxMessages {
		s.key, s.text = "message", "other messages"
	}
	l.lines[s]++
	return l.lines[s] <= s.limit()
}

// flush ends the window and writes what was suppressed in it.
func (l *limiter) flush() {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	lines, over := l.lines, time.Since(l.begin).Round(time.Second)
	l.lines = make(map[source]int)
	l.mu.Unlock()
	for s, n := range lines {
		if n > s.limit() {
			r := slog.NewRecord(time.Now(), s.level, "log lines suppressed", 0)
			r.AddAttrs(slog.String(s.key, s.text), slog.Int("lines", n-s.limit()), slog.Duration("over", over))
			_ = l.base.Handle(context.Background(), r)
		}
	}
}

// Close ends the window early. Later lines begin another one.
func (h *Handler) Close() { h.limiter.flush() }

// Truncate is a ReplaceAttr of slog's handlers that limits texts, and values that become texts, to
// MaxText bytes: an error may contain what a site sent.
func Truncate(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Any().(type) {
	case string, error, fmt.Stringer:
		if s := a.Value.String(); len(s) > MaxText {
			a.Value = slog.StringValue(cut(s, MaxText))
		}
	}
	return a
}

// cut returns at most n bytes of s, followed by its length if it was longer.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:n], ""), len(s))
}

// Capture sends the log lines of libraries to h: package log and slog's default logger (HTTP/2,
// QUIC), go-log and libp2p. It changes state of the process and is for main packages. Of libp2p and
// go-log it takes errors only, because they warn about ordinary network failures.
func Capture(h *Handler) {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	slog.SetDefault(slog.New(h.library("default", slog.LevelDebug))) // also sets the output of package log
	gologshim.SetDefaultHandler(h.library("libp2p", slog.LevelError))
	format := zapcore.EncoderConfig{NameKey: "name", MessageKey: "message", ConsoleSeparator: ": ", SkipLineEnding: true}
	golog.SetPrimaryCore(zapcore.NewCore(zapcore.NewConsoleEncoder(format), zapcore.AddSync(lines{h.library("go-log", slog.LevelError)}), zapcore.ErrorLevel))
}

// lines logs each write as one message at level error.
type lines struct{ slog.Handler }

func (l lines) Write(line []byte) (int, error) {
	return len(line), l.Handle(context.Background(), slog.NewRecord(time.Now(), slog.LevelError, string(line), 0))
}
