package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/loop"
)

// TestProcess: one that was started runs until it is told to end, also for who did not start it,
// and its log has its last words.
func TestProcess(t *testing.T) {
	ctx, p := within(t), &process{peer: 1, dir: t.TempDir()}
	if p.runs() || p.stop(ctx) != nil {
		t.Error("it runs before it was started")
	}
	if err := p.start(binary, []string{"web", "serve", "--listen", "127.0.0.1:0", "--data-dir", p.dir}, os.Environ(), false); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(p.lastWords(), "first seed") {
		if err := loop.Sleep(ctx, 10*time.Millisecond); err != nil || !p.runs() {
			t.Fatalf("it does not serve: %s", p.lastWords())
		}
	}
	another := &process{peer: 1, dir: p.dir}
	if !another.runs() {
		t.Error("who did not start it does not see that it runs")
	}
	if err := another.stop(ctx); err != nil || another.runs() {
		t.Errorf("it was stopped, and: %v", err)
	}
	if err := p.gone(ctx); err != nil || p.pid() != 0 {
		t.Errorf("it is gone: %v, and yet has the ID %d", err, p.pid())
	}

	if err := p.start(binary, []string{"nonsense"}, os.Environ(), false); err != nil {
		t.Fatal(err)
	}
	if err := p.gone(ctx); err != nil || !strings.Contains(p.lastWords(), "unknown command") || strings.Contains(p.lastWords(), "first seed") {
		t.Errorf("the last words of a second run: %v, %s", err, p.lastWords())
	}
}
