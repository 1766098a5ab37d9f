package doctor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/control"
)

func TestJudgeClock(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name    string
		built   time.Time
		offsets []time.Duration
		want    Verdict
		text    string
	}{
		{"nobody to compare with", time.Time{}, nil, OK, "compare"},
		{"as the others", time.Time{}, []time.Duration{-time.Millisecond, 40 * time.Millisecond, 2 * time.Millisecond}, OK, "within 2ms of 3 peers"},
		{"one liar among three", time.Time{}, []time.Duration{time.Hour, time.Millisecond, -time.Millisecond}, OK, "within 1ms"},
		{"drifting", time.Time{}, []time.Duration{5 * time.Second}, Warn, "5s behind"},
		{"wrong by an hour", time.Time{}, []time.Duration{-time.Hour}, Fail, "1h0m0s ahead"},
		{"older than the program", now.Add(time.Hour), nil, Fail, "before this program was built"},
	} {
		f := judgeClock(now, row.built, row.offsets)
		if f.Verdict != row.want || !strings.Contains(f.Found, row.text) {
			t.Errorf("%s: %s %q", row.name, f.Verdict, f.Found)
		}
		if (f.Cure == "") != (f.Verdict == OK) {
			t.Errorf("%s: %s with the cure %q", row.name, f.Verdict, f.Cure)
		}
	}
}

func TestJudgeEntries(t *testing.T) {
	gone := errors.New("connection refused")
	named := node.Entry{Source: "--dns-seed seed.test", Address: "a"}
	silent := node.Entry{Source: "--dns-seed seed.test", Address: "b", Err: gone}
	seeds := node.Config{DNSSeed: []string{"seed.test."}}
	both := node.Config{DNSSeed: seeds.DNSSeed, Bootstrap: []string{"c"}}
	known := node.Entry{Source: "remembered peer", Address: "d"}
	lost := node.Entry{Source: "remembered peer", Address: "e", Err: gone}
	for _, row := range []struct {
		name    string
		cfg     node.Config
		entries []node.Entry
		want    Verdict
		text    string
	}{
		{"not asked", seeds, nil, Fail, "in time"},
		{"no such name", seeds, []node.Entry{{Source: "--dns-seed", Address: "seed.test", Err: errors.New("no such host")}}, Fail, "no such host"},
		{"another's failure", seeds, []node.Entry{{Source: "--dns-seed", Address: "other.test", Err: gone}, named}, OK, "1 of 1 peer"},
		{"some answer", seeds, []node.Entry{named, silent}, Warn, "(b: connection refused)"},
		{"none answers", seeds, []node.Entry{silent}, Fail, "connection refused"},
		{"an entry peer does not", both, []node.Entry{named, {Source: "--bootstrap", Address: "c", Err: gone}}, Fail, "--bootstrap: 0 of 1 peer responding (c: connection refused)"},
		{"both do", both, []node.Entry{named, {Source: "--bootstrap", Address: "c"}, lost}, OK, "0 of 1 remembered peer"},
		{"nothing", node.Config{}, nil, OK, "none configured"},
		{"nothing, public", node.Config{Profile: node.ProfilePublic}, nil, Warn, "own ring"},
		{"remembered", node.Config{}, []node.Entry{known, lost}, OK, "1 of 2 remembered peers"},
		{"remembered and gone", node.Config{}, []node.Entry{lost}, Warn, "will wait"},
	} {
		if f := judgeEntries(&row.cfg, row.entries, false); f.Verdict != row.want || !strings.Contains(f.Found, row.text) || (f.Cure == "") != (f.Verdict == OK) {
			t.Errorf("%s: %+v", row.name, f)
		}
	}
}

// TestExamine: one thing is wrong at a time, in a directory of its own, and only the check of that
// thing fails.
func TestExamine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, row := range []struct {
		name  string
		wrong func(*Setup)
		fails string
	}{
		{"nothing", func(*Setup) {}, ""},
		{"no space", func(s *Setup) { s.Config.DiskReserve = 1 << 60 }, "disk"},
		{"a program from the future", func(s *Setup) { s.Built = time.Now().Add(time.Hour) }, "clock"},
		{"no contact", func(s *Setup) { s.Config.Contact = "none" }, "contact"},
		{"an entry peer that is gone", func(s *Setup) {
			s.Config.Bootstrap = []string{"/ip4/127.0.0.1/tcp/" + port + "/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"}
			_ = taken.Close() // nobody accepts, and the dial fails at once
		}, "entry peers"},
	} {
		s := Setup{Config: node.DefaultConfig(filepath.Join(t.TempDir(), "peer"), node.ProfileLab), Log: slog.New(slog.DiscardHandler)}
		s.Config.Contact, s.Config.DiskReserve = "https://crawler.example/", 1<<20
		row.wrong(&s)
		var names []string
		failed, err := Examine(t.Context(), s, func(f Finding) error {
			names = append(names, f.Check)
			if (f.Verdict == Fail) != (f.Check == row.fails) {
				t.Errorf("%s: %s: %s: %s", row.name, f.Check, f.Verdict, f.Found)
			}
			if (f.Cure == "") != (f.Verdict == OK) {
				t.Errorf("%s: %s: %s with the cure %q", row.name, f.Check, f.Verdict, f.Cure)
			}
			return nil
		})
		if want := row.fails != ""; err != nil || (failed == 1) != want || len(names) != len(checks) {
			t.Errorf("%s: %d failed, %d checks, %v", row.name, failed, len(names), err)
		}
		if _, err := os.Stat(s.Config.DataDir); err == nil {
			t.Errorf("%s: the data directory was made", row.name)
		}
	}
}

func TestExamineInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := Setup{Config: node.DefaultConfig(t.TempDir(), node.ProfileLab), Log: slog.New(slog.DiscardHandler)}
	told := 0
	_, err := Examine(ctx, s, func(Finding) error {
		told++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("%v after %d findings", err, told)
	}
}

// TestReached: what nobody has tried yet is not said to be so.
func TestReached(t *testing.T) {
	for _, tt := range []struct {
		role, reached string
		addrs         []string
		want          string
		verdict       Verdict
	}{
		{"worker", "unknown", nil, "not confirmed", Warn},
		{"worker", "not", nil, "not reachable", Warn},
		{"worker", "relayed", nil, "relays only", Warn},
		{"worker", "direct", []string{"a"}, "joins", Warn},
		{"ring", "unknown", []string{"a"}, "at a", OK},
		{"ring", "unknown", nil, "no address", Warn},
		{"ring", "direct", []string{"a"}, "(direct) at a", OK},
	} {
		e := &examination{runs: true, status: &control.Status{Role: tt.role, Reached: tt.reached, Addrs: tt.addrs}}
		if f := e.reachability(t.Context()); f.Verdict != tt.verdict || !strings.Contains(f.Found, tt.want) {
			t.Errorf("%s, %s: %+v, want %q", tt.role, tt.reached, f, tt.want)
		}
	}
}
