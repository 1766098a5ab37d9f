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
func record() (*slog.Logger, *buffer, *Counted) {
	out := new(buffer)
	h := New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return slog.New(h), out, h
}

// buffer is written to by whoever logs, and by the timer that tells what was counted.
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

func lines(out *buffer) int { return strings.Count(out.String(), "\n") }

func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out, h := record()
		for i := range 1_000_000 {
			l.Warn("strange frame", "of", i)
		}
		l.Warn("another")
		if n := lines(out); n != First+1 {
			t.Fatalf("%d lines: %.2000s", n, out)
		}
		out.Reset()
		time.Sleep(Window)
		synctest.Wait()
		if got := out.String(); lines(out) != 1 || !strings.Contains(got, `"log message repeated" message="strange frame" times=999980 over=1m0s`) {
			t.Fatalf("told %q", got)
		}
		l.Warn("strange frame")
		if n := lines(out); n != 2 {
			t.Errorf("in the next window: %d lines", n)
		}
		for range First + 5 {
			l.Warn("strange frame")
		}
		out.Reset()
		h.Close()
		if !strings.Contains(out.String(), "times=6") {
			t.Errorf("at the end %q", out)
		}
	})
}

// TestTextsOfStrangers: neither as a message nor as an attribute can they fill the log, whatever
// they write.
func TestTextsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out, h := record()
		for i := range 100_000 {
			l.With(ComponentKey, "http2").Warn(fmt.Sprintf("invalid header %d", i)) //nolint:sloglint // as libraries do
		}
		if n := lines(out); n != Foreign {
			t.Errorf("%d lines of a component", n)
		}
		out.Reset()
		for i := range 100_000 {
			l.Info(fmt.Sprintf("message %d", i)) //nolint:sloglint // as libraries do
		}
		if n := lines(out); n > MaxMessages+First {
			t.Errorf("%d lines", n)
		}
		h.book.mu.Lock()
		n := len(h.book.messages)
		h.book.mu.Unlock()
		if n > MaxMessages+2 {
			t.Errorf("%d messages are remembered", n)
		}
		time.Sleep(2 * Window)
		out.Reset()
		long := strings.Repeat("\u00fc", 1<<20)
		l.Error(long, "text", long, "error", errors.New(long), "wrapped", fmt.Errorf("x: %w", errors.New(long))) //nolint:sloglint // as libraries do
		if n := len(out.String()); n > 6*MaxText || lines(out) != 1 {
			t.Errorf("a line of %d bytes", n)
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
	if n := lines(out); n != FirstDebug {
		t.Errorf("%d lines", n)
	}
}

func TestCapture(t *testing.T) {
	writer, flags, before := log.Writer(), log.Flags(), slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(writer)
		log.SetFlags(flags)
	})
	_, out, h := record()
	Capture(h)
	log.Printf("http2: strange: %d", 1)
	slog.Info("by default") //nolint:sloglint // this is what libraries use
	gologshim.Logger("swarm").Error("from libp2p")
	golog.Logger("kad").Errorw("from go-log", "key", "value")
	golog.Logger("kad").Warn("not wanted")
	h.Close()
	for _, want := range []string{
		`level=WARN msg="http2: strange: 1" component=github.com/apoidea/apoidea/node/logs`, `level=INFO msg="by default" component=default`,
		`level=ERROR msg="from libp2p" component=libp2p`, `level=ERROR msg="from go-log" component=kad key=value`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "not wanted") {
		t.Error("a warning of go-log")
	}
}

func TestPackageOf(t *testing.T) {
	for function, want := range map[string]string{
		"golang.org/x/net/http2.(*clientConnReadLoop).run": "golang.org/x/net/http2",
		"net/http.(*conn).serve":                           "net/http",
		"github.com/quic-go/quic-go.init.0":                "github.com/quic-go/quic-go",
		"log.Printf":                                       "log",
		"main.main":                                        "main",
		"":                                                 "",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("%s: %s", function, got)
		}
	}
}
