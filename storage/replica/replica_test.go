package replica

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCopiesFollow: whatever is lost, late, doubled or started anew, level followers hold a state
// of the source not older than what they acknowledged, in the end all hold the last one, and who is
// no follower any more holds nothing.
func TestCopiesFollow(t *testing.T) {
	seeds := uint64(25)
	if os.Getenv("APOIDEA_FULL") == "" {
		seeds = 5
	}
	for _, loss := range []float64{0, 0.1, 0.4} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("loss %v seed %d", loss, seed), func(t *testing.T) {
				x := newNet(t, seed, loss)
				names := []string{"a", "b", "c", "d"}
				x.source.Follow(names[:2], never)
				for range 150 {
					switch x.rnd.IntN(20) {
					case 0:
						x.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
						x.source.Follow(names[:x.rnd.IntN(4)], never)
					case 1: // a follower starts again
						if c := x.copies[names[0]]; c != nil {
							c.streams = map[string]*stream{}
						}
					case 2: // the source starts again
						x.source = NewSource(Config{Message: 300, Span: 60, MaxLog: 4000, Incarnation: x.source.streams>>24 + 1})
						x.history = []string{x.state(x.records)}
						x.late = nil
						x.source.Follow(names[:2], never)
						for _, name := range names[2:] { // whom the earlier process followed
							delete(x.copies, name)
						}
					case 3:
						if c := x.copies[names[0]]; c != nil && len(x.late) == 0 {
							if _, err := c.Drop("source", x.key(), nil); err != nil {
								t.Fatal(err)
							}
							for _, f := range x.source.followers {
								if f.name == names[0] {
									f.level = false // not checked until its stream has broken
								}
							}
							if f := x.source.find(names[0]); f != nil && f.busy == 0 {
								x.source.restart(f)
							}
						}
					default:
						x.write()
					}
					x.step()
				}
				x.source.Follow([]string{"a", "b"}, never)
				x.settle()
				want := x.state(x.records)
				for _, name := range []string{"a", "b"} {
					if got := x.copyOf(name); got != want {
						t.Errorf("%s:\n got %s\nwant %s", name, got, want)
					}
				}
			})
		}
	}
}

// TestForget: a former follower is told to forget only when the new ones have everything.
func TestForget(t *testing.T) {
	x := newNet(t, 1, 0)
	for range 50 {
		x.write()
	}
	x.source.Follow([]string{"a"}, never)
	x.settle()
	x.source.Follow([]string{"b"}, never)
	for range 1000 {
		if _, all := x.source.Level(); all != 1 {
			t.Fatal("no follower")
		}
		level, _ := x.source.Level()
		if level == 0 && x.copyOf("a") == "" {
			t.Fatal("a has forgotten before b was level")
		}
		x.step()
	}
	if x.copyOf("a") != "" || x.copyOf("b") != x.state(x.records) {
		t.Errorf("a holds %q, b %q", x.copyOf("a"), x.copyOf("b"))
	}
	if names, err := x.copies["a"].Sources(); len(names) != 0 || err != nil {
		t.Errorf("a still names sources %q, %v", names, err)
	}
}

// TestForgetAfterACall: who is no follower any more while a message to it is under way is told to
// forget all the same.
func TestForgetAfterACall(t *testing.T) {
	x := newNet(t, 1, 0)
	x.source.Follow([]string{"a", "b"}, never)
	x.settle()
	x.now = x.now.Add(time.Hour)
	x.write()
	calls, _, _ := x.source.Next(x.now)
	x.source.Follow([]string{"b"}, never)
	for _, call := range calls {
		x.deliver(call)
	}
	if len(calls) != 2 || x.source.Followers() != 2 {
		t.Fatalf("%d messages under way, %d followers, of which one is to forget", len(calls), x.source.Followers())
	}
	x.settle()
	if got := x.copyOf("a"); got != "" {
		t.Errorf("it keeps %s", got)
	}
}

// TestSyncWhileWriting: a follower is made level though something is written during each message.
func TestSyncWhileWriting(t *testing.T) {
	x := newNet(t, 1, 0)
	x.source.cfg.MaxLog = 1 << 20
	for range 100 {
		x.write()
	}
	x.source.Follow([]string{"a"}, never)
	for range 200 {
		calls, scans, _ := x.source.Next(x.now)
		for _, scan := range scans {
			r := x.source.Collect(scan)
			if all := true; x.records.Scan(scan.Lo, nil, func(k, v []byte) bool { all = r.Add(k, v); return all }) == nil && all {
				r.End()
			}
			if call, ok := x.source.Scanned(x.now, r, nil); ok {
				calls = append(calls, call)
			}
		}
		x.write()
		x.now = x.now.Add(80 * time.Millisecond)
		for _, call := range calls {
			x.deliver(call)
		}
		x.check()
		if level, _ := x.source.Level(); level == 1 {
			return
		}
	}
	t.Errorf("not level after %v", x.now.Sub(time.Unix(1e9, 0)))
}

// TestSyncSendsTheDifference: a copy that is nearly the same is made level with little more than
// digests.
func TestSyncSendsTheDifference(t *testing.T) {
	x := newNet(t, 1, 0)
	for i := range 2000 {
		op := Op{Kind: Set, Key: fmt.Appendf(nil, "h%05d", i), Value: fmt.Appendf(nil, "%x", x.rnd.Uint64())}
		x.records.do(&op)
	}
	x.source = NewSource(Config{Incarnation: 1, Span: 1000})
	x.history = []string{x.state(x.records)}
	x.source.Follow([]string{"a"}, never)
	x.settle()
	whole := x.bytes
	x.source = NewSource(Config{Incarnation: 2, Span: 1000})
	x.records.Set([]byte("h00500"), []byte("other"))
	x.records.Delete([]byte("h01500"))
	x.history = []string{x.state(x.records)}
	x.bytes = 0
	x.source.Follow([]string{"a"}, never)
	x.settle()
	if x.copyOf("a") != x.state(x.records) {
		t.Fatal("the copy is another")
	}
	if x.bytes > whole/5 {
		t.Errorf("%d bytes for two differences, %d for the whole", x.bytes, whole)
	}
}

// TestDrop: what was taken over leaves the copy; a source that is still there makes it whole again.
func TestDrop(t *testing.T) {
	x := newNet(t, 1, 0)
	for range 60 {
		x.write()
	}
	x.source.Follow([]string{"a"}, never)
	x.settle()
	if _, err := x.copies["a"].Drop("source", []byte("h030"), nil); err != nil {
		t.Fatal(err)
	}
	if got := x.copyOf("a"); strings.Contains(got, "h03") || strings.Contains(got, "h1") {
		t.Errorf("left over: %s", got)
	}
	x.source.followers[0].level = false // check knows nothing of the drop
	x.write()
	calls, _, _ := x.source.Next(x.now)
	for _, call := range calls {
		x.deliver(call)
	}
	x.settle()
	if x.copyOf("a") != x.state(x.records) {
		t.Error("the copy was not made whole")
	}
}

// TestDurableWaitsForWhoWasLevel: a follower that had everything and cannot be reached, or has
// started again, is waited for until it is level again or another takes its place. One that never
// was level is not.
func TestDurableWaitsForWhoWasLevel(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(x *net)
		heal func(x *net)
	}{
		{"its answers get lost", func(x *net) { x.loss = 1 }, func(x *net) { x.settle() }},
		{"it started again", func(x *net) {
			x.copies["a"].streams = map[string]*stream{}
			x.source.cfg.SyncPause = time.Hour // between two steps of range sync
		}, func(x *net) {
			x.source.cfg.SyncPause = 1
			x.now = x.now.Add(time.Hour)
			x.settle()
		}},
		{"the log overflowed", func(x *net) {
			x.loss = 1
			for range 200 {
				x.write()
				x.step()
			}
		}, func(x *net) { x.settle() }},
		{"it is replaced", func(x *net) { x.loss = 1 }, func(x *net) {
			x.source.Follow([]string{"b"}, func(name string) bool { return name == "a" })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newNet(t, 1, 0)
			for range 20 {
				x.write()
			}
			x.source.Follow([]string{"a"}, never)
			if x.source.Durable() != x.source.Seq() {
				t.Fatal("a follower that has yet to become level is waited for")
			}
			x.settle()
			had := x.source.Seq()
			x.source.cfg.Retry = 1
			c.harm(x)
			for range 30 {
				x.write()
				x.step()
				if d := x.source.Durable(); d > had && x.copyOf("a") != x.state(x.records) && !slices.Contains(x.history[d:], x.copyOf("a")) {
					t.Fatalf("durable %d of %d, and the follower is at %d or so", d, x.source.Seq(), had)
				}
			}
			if d := x.source.Durable(); d >= x.source.Seq() {
				t.Fatalf("durable %d of %d without the follower", d, x.source.Seq())
			}
			c.heal(x)
			if d := x.source.Durable(); d != x.source.Seq() {
				t.Fatalf("durable %d of %d in the end", d, x.source.Seq())
			}
		})
	}
}

// TestLostCallBreaksNoStream: what may have arrived is sent again as it was, and nothing is
// compared anew.
func TestLostCallBreaksNoStream(t *testing.T) {
	x := newNet(t, 1, 0)
	x.source.cfg.MaxLog = 1 << 20
	x.source.Follow([]string{"a"}, never)
	x.settle()
	stream := x.source.find("a").stream
	for range 50 {
		x.loss = 0.5
		x.write()
		x.step()
		if f := x.source.find("a"); f.stream != stream || !f.level {
			t.Fatalf("stream %d after %d, level %v", f.stream, stream, f.level)
		}
	}
	x.settle()
	if x.copyOf("a") != x.state(x.records) {
		t.Error("the copy is another")
	}
}

// TestEntriesShareAMessage: what is written soon after a message waits for the pace and goes as
// one, unless it is in a hurry.
func TestEntriesShareAMessage(t *testing.T) {
	x := newNet(t, 1, 0)
	x.source.cfg.Message = 1 << 20
	x.source.Follow([]string{"a"}, never)
	x.settle()
	x.now = x.now.Add(time.Hour)
	next := func(want int) {
		t.Helper()
		calls, _, again := x.source.Next(x.now)
		for _, call := range calls {
			x.deliver(call)
		}
		if len(calls) != want {
			t.Fatalf("%d messages, want %d", len(calls), want)
		}
		if left := x.source.Seq() - x.source.Durable(); left > 0 && !again.After(x.now) {
			t.Fatalf("%d entries wait, and Next is to be asked again at %v, now is %v", left, again, x.now)
		}
	}
	x.write()
	next(1)
	for range 3 {
		x.write()
		next(0)
	}
	x.now = x.now.Add(x.source.cfg.Pace)
	next(1)
	next(0)
	x.write()
	x.source.Hurry(true)
	next(1)
	x.write()
	next(1)
	x.source.Hurry(false)
	if x.copyOf("a") != x.state(x.records) {
		t.Error("the copy is another")
	}
	x.write()
	next(0)
}

// TestPartsAreBounded: what sources that never end their entries leave behind is bounded for all of
// them together, those that went silent first give way, and whoever still is at work loses nothing.
func TestPartsAreBounded(t *testing.T) {
	c := NewCopies(newMemory())
	c.maxParts = 4000
	n := make(map[string]uint64)
	send := func(source string, part bool) (lost bool) {
		t.Helper()
		n[source]++
		op := Op{Kind: Set, Key: fmt.Appendf(nil, "h%d", n[source]), Value: make([]byte, 300)}
		reply, _, err := c.Handle(source, (&message{stream: 1, n: n[source], part: part, ops: []Op{op}}).encode())
		if err != nil {
			t.Fatal(err)
		}
		a, err := decodeAnswer(reply, 0)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, st := range c.streams {
			held += st.size
		}
		if held != c.parts || held > c.maxParts {
			t.Fatalf("%d bytes held, counted as %d, bound %d", held, c.parts, c.maxParts)
		}
		return a.lost
	}
	for i := range 20 {
		send(fmt.Sprint("silent ", i), true)
		if i%4 == 0 && send("at work", true) {
			t.Fatalf("the one at work was given up after %d silent ones", i)
		}
	}
	if send("at work", false) {
		t.Error("the last part was not taken")
	}
	records := 0
	if err := c.Scan("at work", nil, nil, func(_, _ []byte) bool { records++; return true }); err != nil || records != 6 {
		t.Errorf("%d of 6 records are there, %v", records, err)
	}
	if !send("silent 0", false) {
		t.Error("the rest of an entry was taken whose beginning was given up")
	}
	if _, err := c.Drop("silent 19", nil, nil); err != nil { // its records are somebody's own by now
		t.Fatal(err)
	}
	delete(n, "silent 19")
	for source := range n {
		if _, _, err := c.Handle(source, (&message{stream: 2, n: 1, forget: true}).encode()); err != nil {
			t.Fatal(err)
		}
	}
	if c.parts != 0 {
		t.Errorf("%d bytes held of nobody", c.parts)
	}
}

// TestKeysCountWhole: a message whose keys share nearly all with each other is refused when they
// are too much together.
func TestKeysCountWhole(t *testing.T) {
	ops := []Op{{Delete, make([]byte, MaxKey), nil}}
	for range MaxMessage / MaxKey {
		ops = append(ops, ops[0])
	}
	raw := (&message{stream: 3, n: 1, ops: ops}).encode()
	if len(raw) > 1<<20 {
		t.Fatalf("%d bytes", len(raw))
	}
	if _, err := decodeMessage(raw); err == nil {
		t.Error("it is taken")
	}
	if _, err := decodeMessage((&message{stream: 3, n: 1, ops: ops[:100]}).encode()); err != nil {
		t.Error(err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add((&message{stream: 3, n: 1, ops: []Op{{Set, []byte("ha"), []byte("1")}, {Delete, []byte("hab"), nil}, {DeleteRange, []byte("h"), []byte("i")}}}).encode())
	f.Add((&message{stream: 3, n: 2, spans: []span{{hi: []byte("hb")}, {}}}).encode())
	f.Add((&message{stream: 9, n: 1, forget: true}).encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeMessage(raw)
		if err != nil {
			return
		}
		again, err := decodeMessage(m.encode())
		if err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if len(again.ops) != len(m.ops) || len(again.spans) != len(m.spans) || again.stream != m.stream || again.n != m.n {
			t.Fatalf("got %+v, want %+v", again, m)
		}
		c := NewCopies(newMemory())
		_, _, _ = c.Handle("source", raw)
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add((&answer{differ: []int{0, 3}}).encode(), 4)
	f.Add((&answer{lost: true}).encode(), 0)
	f.Fuzz(func(t *testing.T, raw []byte, spans int) {
		a, err := decodeAnswer(raw, spans)
		if err != nil {
			return
		}
		for _, i := range a.differ {
			if i < 0 || i >= spans {
				t.Fatalf("span %d of %d", i, spans)
			}
		}
	})
}
