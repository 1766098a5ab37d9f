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
		name string
		view clockView
		want Verdict
		text string
	}{
		{"nobody to compare with", clockView{}, OK, "compare"},
		{"as the others", clockView{offsets: []time.Duration{-time.Millisecond, 40 * time.Millisecond, 2 * time.Millisecond}}, OK, "within 2ms of 3 peers"},
		{"one liar among three", clockView{offsets: []time.Duration{time.Hour, time.Millisecond, -time.Millisecond}}, OK, "within 1ms"},
		{"drifting", clockView{offsets: []time.Duration{5 * time.Second}}, Warn, "5s behind"},
		{"wrong by an hour", clockView{offsets: []time.Duration{-time.Hour}}, Fail, "1h0m0s ahead"},
		{"older than the program", clockView{built: now.Add(time.Hour)}, Fail, "before this program was built"},
		{"files from the future", clockView{newest: now.Add(time.Hour)}, Fail, "1h0m0s from now"},
		{"files of a moment ago", clockView{newest: now.Add(-time.Second)}, OK, ""},
		{"set while we looked", clockView{jumped: 90 * time.Second}, Warn, "jumped by 1m30s"},
	} {
		row.view.now = now
		f := judgeClock(&row.view)
		if f.Verdict != row.want || !strings.Contains(f.Found, row.text) {
			t.Errorf("%s: %s %q", row.name, f.Verdict, f.Found)
		}
		if (f.Cure == "") != (f.Verdict == OK) {
			t.Errorf("%s: %s with the cure %q", row.name, f.Verdict, f.Cure)
		}
	}
}

func TestJudgeDescriptors(t *testing.T) {
	for limit, want := range map[uint64]Verdict{0: OK, 299: Fail, 300: Warn, 599: Warn, 600: OK} {
		if f := judgeDescriptors(limit, 300); f.Verdict != want {
			t.Errorf("%d: %s, want %s", limit, f.Verdict, want)
		}
	}
}

func TestJudgeSeed(t *testing.T) {
	gone := errors.New("connection refused")
	named := node.Entry{Source: "--dns-seed seed.test", Address: "a"}
	silent := node.Entry{Source: "--dns-seed seed.test", Address: "b", Err: gone}
	for _, row := range []struct {
		name    string
		entries []node.Entry
		want    Verdict
		text    string
	}{
		{"not asked", nil, Fail, "in time"},
		{"no such name", []node.Entry{{Source: "--dns-seed", Address: "seed.test", Err: errors.New("no such host")}}, Fail, "no such host"},
		{"another's failure", []node.Entry{{Source: "--dns-seed", Address: "other.test", Err: gone}, named}, OK, "1 peer"},
		{"some answer", []node.Entry{named, silent}, Warn, "(connection refused)"},
		{"none answers", []node.Entry{silent}, Fail, "connection refused"},
	} {
		if v, text := judgeSeed("seed.test", row.entries); v != row.want || !strings.Contains(text, row.text) {
			t.Errorf("%s: %s %q", row.name, v, text)
		}
	}
}

func TestListenAddr(t *testing.T) {
	for text, want := range map[string]string{
		"/ip4/0.0.0.0/tcp/4001":           "tcp 0.0.0.0:4001",
		"/ip6/::1/tcp/1":                  "tcp [::1]:1",
		"/ip4/127.0.0.1/udp/4001/quic-v1": "udp 127.0.0.1:4001",
		"/dns4/example.org/tcp/1":         "error",
		"nonsense":                        "error",
	} {
		network, addr, err := listenAddr(text)
		got := network + " " + addr
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s (%v)", text, got, err)
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
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		wrong func(*Setup)
		fails string
	}{
		{"nothing", func(*Setup) {}, ""},
		{"a file in the way", func(s *Setup) { s.Config.DataDir = filepath.Join(file, "peer") }, "data directory"},
		{"no space", func(s *Setup) { s.Config.DiskReserve = 1 << 60 }, "disk"},
		{"no descriptors", func(s *Setup) { s.Config.Fetchers = 1 << 30 }, "descriptors"},
		{"a program from the future", func(s *Setup) { s.Built = time.Now().Add(time.Hour) }, "clock"},
		{"a port that is taken", func(s *Setup) { s.Config.Listen = []string{"/ip4/127.0.0.1/tcp/" + port} }, "ports"},
		{"no contact", func(s *Setup) { s.Config.Contact = "none" }, "contact"},
		{"a key that is none", func(s *Setup) { s.FileError = errors.New("unknown key") }, "configuration"},
		{"a setting that is wrong", func(s *Setup) { s.SettingsError = errors.New("fetchers 0") }, "configuration"},
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

// TestStalledPeer fails, with where to look.
func TestStalledPeer(t *testing.T) {
	e := &examination{runs: true, status: &control.Status{State: "crawling", Stalled: &control.Stalled{Since: time.Unix(1e9, 0), Work: "16 exchanges", Stacks: "/data/stalls/stall-1.txt"}}}
	f := e.peer(t.Context())
	if f.Verdict != Fail || !strings.Contains(f.Found, "16 exchanges") || !strings.Contains(f.Cure, "/data/stalls/stall-1.txt") {
		t.Errorf("%+v", f)
	}
	e.status.Stalled.Stacks = ""
	if f := e.peer(t.Context()); f.Verdict != Fail || !strings.Contains(f.Cure, "log") {
		t.Errorf("%+v", f)
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
		if f := e.reached(); f.Verdict != tt.verdict || !strings.Contains(f.Found, tt.want) {
			t.Errorf("%s, %s: %+v, want %q", tt.role, tt.reached, f, tt.want)
		}
	}
}
