package logs

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
)

// record returns a logger, what it wrote, and what ends it.
func record() (*slog.Logger, *buffer, *Handler) {
	out := new(buffer)
	h := New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: Truncate}))
	return slog.New(h), out, h
}

// buffer is written to by loggers and by the timer of the limiter.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

func count(out *buffer) int { return strings.Count(out.String(), "\n") }

func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out, h := record()
		for i := range 1_000_000 {
			l.Warn("strange frame", "of", i)
		}
		l.Warn("another")
		if n := count(out); n != First+1 {
			t.Fatalf("%d lines: %.2000s", n, out)
		}
		out.Reset()
		time.Sleep(Window)
		synctest.Wait()
		if got := out.String(); count(out) != 1 || !strings.Contains(got, `level=WARN msg="log lines suppressed" message="strange frame" lines=999980 over=1m0s`) {
			t.Fatalf("told %q", got)
		}
		l.Warn("strange frame")
		if n := count(out); n != 2 {
			t.Errorf("in the next window: %d lines", n)
		}
		for range First + 5 {
			l.Warn("strange frame")
		}
		out.Reset()
		h.Close()
		if !strings.Contains(out.String(), "lines=6 over=0s") {
			t.Errorf("at the end %q", out)
		}
	})
}

// TestTextsOfStrangers: varying, long and multi-line texts of sites and peers do not fill or forge
// the log, as messages or as attributes.
func TestTextsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out, h := record()
		for i := range 100_000 {
			slog.New(h.library("http2", slog.LevelDebug)).Warn(fmt.Sprintf("invalid header %d", i)) //nolint:sloglint // as libraries do
		}
		if n := count(out); n != First {
			t.Errorf("%d lines of a component", n)
		}
		out.Reset()
		for i := range 100_000 {
			l.Info(fmt.Sprintf("message %d", i)) //nolint:sloglint // as libraries do
		}
		if n := count(out); n > MaxMessages+First {
			t.Errorf("%d lines", n)
		}
		h.limiter.mu.Lock()
		n := len(h.limiter.lines)
		h.limiter.mu.Unlock()
		if n > MaxMessages+2 {
			t.Errorf("%d messages are counted separately", n)
		}
		time.Sleep(2 * Window)
		synctest.Wait()
		if !strings.Contains(out.String(), "component=http2 lines=99980") {
			t.Errorf("no summary of the library")
		}
		out.Reset()
		long := strings.Repeat("\u00fc", 1<<20)
		l.Error(long, "text", long, "error", errors.New(long), "wrapped", fmt.Errorf("x: %w", errors.New(long))) //nolint:sloglint // as libraries do
		if n := len(out.String()); n > 6*MaxText || count(out) != 1 {
			t.Errorf("a line of %d bytes", n)
		}
		out.Reset()
		l.With("url", long).WithGroup("g").Info("x", slog.Group("h", "text", long), "forged", "a\nlevel=ERROR\x1b[2J")
		if n := len(out.String()); n > 3*MaxText || count(out) != 1 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("a line of %d bytes: %q", n, out)
		}
		h.Close()
	})
}

func TestDebugIsNotCutShort(t *testing.T) {
	l, out, h := record()
	defer h.Close()
	for range FirstDebug {
		l.Debug("step")
	}
	if n := count(out); n != FirstDebug {
		t.Errorf("%d lines", n)
	}
}

func TestCapture(t *testing.T) {
	output, flags, before := log.Writer(), log.Flags(), slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(before)
		slog.SetLogLoggerLevel(slog.LevelInfo)
		log.SetOutput(output)
		log.SetFlags(flags)
	})
	_, out, h := record()
	Capture(h)
	log.Printf("http2: strange: %d", 1)
	slog.Info("by default") //nolint:sloglint // this is what libraries use
	gologshim.Logger("swarm").Error("from libp2p")
	golog.Logger("kad").Errorw("from go-log", "key", "value")
	golog.Logger("kad").Warn("not wanted")
	gologshim.Logger("swarm").Warn("not wanted")
	h.Close()
	for _, want := range []string{
		`level=WARN msg="http2: strange: 1" component=default`, `level=INFO msg="by default" component=default`,
		`level=ERROR msg="from libp2p" component=libp2p`, `level=ERROR msg="kad: from go-log: {\"key\": \"value\"}" component=go-log`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "not wanted") {
		t.Error("a warning of go-log or libp2p")
	}
}
