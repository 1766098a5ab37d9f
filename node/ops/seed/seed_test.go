package seed

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/apoidea/apoidea/node/control"
)

var update = flag.Bool("update", false, "regenerate the table in docs/founder.md")

// TestMetrics: the series keep Prometheus' own rules, and the page has the table that they are made
// from.
func TestMetrics(t *testing.T) {
	m := newMetrics(func() *reading { return new(reading) })
	m.question("udp", "answered")
	m.visit(true)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 || len(families) != len(gauges)+len(counters) {
		t.Errorf("%d families, %v, %v", len(families), problems, err)
	}
	const page, begin = "../../../docs/founder.md", "by go test ./node/ops/seed -update -->\n\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	_ = Document(&table)
	before, now, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatal("docs/founder.md has no marker for the table")
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if now != table.String() {
		t.Error("docs/founder.md is out of date: run go test ./node/ops/seed -update")
	}
}

// TestConfig: what is wrong is named with its flag and its value.
func TestConfig(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"":                      func(*Config) {},
		`zone "exa mple"`:       func(c *Config) { c.Zone = "exa mple" },
		`zone "."`:              func(c *Config) { c.Zone = "." },
		`zone "aaaa`:            func(c *Config) { c.Zone = strings.Repeat("a", 64) + ".org" },
		`zone "b.b.`:            func(c *Config) { c.Zone = strings.Repeat("b.", 125) },
		`name "-_"`:             func(c *Config) { c.Names = []string{"-_"} },
		`name "17"`:             func(c *Config) { c.Names = make([]string, 17) },
		`ns ""`:                 func(c *Config) { c.NS = []string{""} },
		"address: ":             func(c *Config) { c.Addresses = nil },
		`mailbox "me"`:          func(c *Config) { c.Mailbox = "me" },
		`listen "53"`:           func(c *Config) { c.Listen = "53" },
		`profile "home"`:        func(c *Config) { c.Profile = "home" },
		`network ""`:            func(c *Config) { c.Network = "" },
		`rate "0"`:              func(c *Config) { c.Rate = 0 },
		`every "2h0m0s"`:        func(c *Config) { c.Every = 2 * time.Hour },
		`every "2s"`:            func(c *Config) { c.Profile, c.Every = profilePublic, 2*time.Second },
		`peers "7"`:             func(c *Config) { c.Peers = 7 },
		`dir ""`:                func(c *Config) { c.Dir = "" },
		`metrics "192.0.2.7:1"`: func(c *Config) { c.Metrics = "192.0.2.7:1" },
	} {
		c := DefaultConfig()
		c.Zone, c.Dir, c.Addresses = "seeds.example.org", "x", []netip.Addr{netip.MustParseAddr("192.0.2.7")}
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), want) || control.KindOf(err) != control.KindUsage) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestState: a seed keeps what it knows over a restart, and does not take it for another ring's.
func TestState(t *testing.T) {
	c := DefaultConfig()
	c.Zone, c.Profile, c.Listen, c.Metrics, c.Every = "seeds.test", profileLab, "127.0.0.1:0", "127.0.0.1:0", time.Hour
	c.Dir = filepath.Join(t.TempDir(), "seed")
	log := slog.New(slog.DiscardHandler)
	if _, err := New(t.Context(), c, log); err == nil || !strings.Contains(err.Error(), "--bootstrap") {
		t.Errorf("without anybody to ask: %v", err)
	}
	if _, err := ReadState(c.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no state: %v", err)
	}
	b := NewPeerSet(Rules{Every: time.Hour, Most: 10})
	id, at := ids(t, 1)[0], addr(t, "/ip4/127.0.0.1/tcp/9")
	now := time.Now()
	b.Announced(now, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{at}})
	b.Visited(now, id, at, nil)
	first := &State{Version: stateVersion, Zone: c.Zone, Network: c.Network, Written: now, Peers: b.Peers()}
	if err := first.write(c.Dir); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.draw(); len(got) != 1 || got[0] != full(id, at.String()) {
		t.Errorf("it tells %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.MetricsAddr()+"/metrics", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %v %v", res, err)
	}
	_ = res.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	c.Network = "another"
	if _, err := New(t.Context(), c, log); err == nil || !strings.Contains(err.Error(), `network "main"`) {
		t.Errorf("another ring: %v", err)
	}
	for _, text := range []string{"", "{", `{"version": 2}`} {
		if err := os.WriteFile(filepath.Join(c.Dir, StateFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadState(c.Dir); err == nil || !strings.Contains(err.Error(), StateFile) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLines: what is shown of a peer says with how many it shares its network.
func TestLines(t *testing.T) {
	b := NewPeerSet(Rules{Public: true, Every: time.Minute, Most: 10})
	list := ids(t, 4)
	for i, text := range []string{"/ip4/8.8.1.1/tcp/1", "/ip4/8.8.2.2/tcp/1", "/ip4/9.9.9.9/tcp/1", "/ip4/8.8.3.3/tcp/1"} {
		at := addr(t, text)
		b.Announced(began, peer.AddrInfo{ID: list[i], Addrs: []ma.Multiaddr{at}})
		for k := range 3 {
			b.Visited(began.Add(time.Duration(k)*time.Minute), list[i], at, nil)
		}
	}
	b.Visited(began.Add(4*time.Minute), list[3], nil, errGone)
	s := &State{Public: true, Peers: b.Peers()}
	why := map[string]string{}
	for _, l := range s.Lines(began.Add(5 * time.Minute)) {
		why[l.Peer] = fmt.Sprintf("%s, %d", l.Given, l.Sharing)
	}
	for i, want := range []string{"in, 2", "in, 2", "in, 0", "out, 0"} {
		if got := why[list[i].String()]; got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}

// Document writes the tables as Markdown.
func Document(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| series | kind | labels | is |\n| --- | --- | --- | --- |\n")
	for _, g := range gauges {
		fmt.Fprintf(&b, "| `%s%s` | gauge | - | %s |\n", namespace, g.name, g.help)
	}
	for _, c := range counters {
		fmt.Fprintf(&b, "| `%s%s` | counter | `%s` | %s |\n", namespace, c.name, strings.Join(c.labels, "`, `"), c.help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
