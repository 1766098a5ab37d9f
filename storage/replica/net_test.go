package replica

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/storage/kv"
)

// memory is a store in memory.
type memory struct{ m map[string]string }

func newMemory() *memory { return &memory{m: make(map[string]string)} }

func (s *memory) Get(key []byte) ([]byte, bool, error) {
	v, ok := s.m[string(key)]
	return []byte(v), ok, nil
}

func (s *memory) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s.m)) {
		if k >= string(lo) && (hi == nil || k < string(hi)) && !fn([]byte(k), []byte(s.m[k])) {
			break
		}
	}
	return nil
}

func (s *memory) Update(fn func(kv.Batch)) (func() error, error) {
	fn(s)
	return kv.OnDisk, nil
}

func (s *memory) Set(key, value []byte) { s.m[string(key)] = string(value) }
func (s *memory) Delete(key []byte)     { delete(s.m, string(key)) }
func (s *memory) DeleteRange(lo, hi []byte) {
	for k := range s.m {
		if k >= string(lo) && k < string(hi) {
			delete(s.m, k)
		}
	}
}

func (s *memory) do(op *Op) {
	switch op.Kind {
	case Set:
		s.Set(op.Key, op.Value)
	case Delete:
		s.Delete(op.Key)
	case DeleteRange:
		s.DeleteRange(op.Key, op.Value)
	}
}

// net is a source with followers, and messages that get lost, doubled and late.
type net struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Time
	source  *Source
	records *memory
	history []string // the state after each entry
	copies  map[string]*Copies
	late    []Call
	loss    float64
	bytes   int
}

func newNet(t *testing.T, seed uint64, loss float64) *net {
	x := &net{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), records: newMemory(), copies: make(map[string]*Copies), loss: loss,
	}
	x.source = NewSource(Config{Message: 300, Span: 60, MaxLog: 4000, Reads: 9, Incarnation: 1})
	x.history = []string{x.state(x.records)}
	return x
}

func (x *net) state(s *memory) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s.m)) {
		fmt.Fprintf(&b, "%q=%q ", k, s.m[k])
	}
	return b.String()
}

func (x *net) copyOf(name string) string {
	out := newMemory()
	if c := x.copies[name]; c != nil {
		_ = c.Scan("source", nil, nil, func(k, v []byte) bool {
			out.m[string(k)] = string(v)
			return true
		})
	}
	return x.state(out)
}

func (x *net) key() []byte { return fmt.Appendf(nil, "h%03d", x.rnd.IntN(120)) }

func (x *net) write() {
	var ops []Op
	for range 1 + x.rnd.IntN(4) {
		op := Op{Kind: Set, Key: x.key(), Value: []byte(strings.Repeat("v", x.rnd.IntN(30)) + fmt.Sprint(x.rnd.IntN(1000)))}
		switch x.rnd.IntN(12) {
		case 0:
			op = Op{Kind: DeleteRange, Key: x.key(), Value: x.key()}
			if string(op.Value) <= string(op.Key) {
				op.Value = append(slices.Clone(op.Key), 'x')
			}
		case 1, 2:
			op = Op{Kind: Delete, Key: x.key()}
		case 3:
			op.Value = []byte(strings.Repeat("large", 200))
		}
		ops = append(ops, op)
	}
	for i := range ops {
		x.records.do(&ops[i])
	}
	x.source.Append(ops)
	x.history = append(x.history, x.state(x.records))
}

// step does what the source wants done now.
func (x *net) step() {
	calls, scans, _ := x.source.Next(x.now)
	for _, scan := range scans {
		if x.rnd.IntN(3) == 0 {
			x.write() // between the wish and the scan
		}
		r := x.source.Collect(scan)
		all := true
		_ = x.records.Scan(scan.Lo, nil, func(k, v []byte) bool {
			all = (x.rnd.IntN(2) == 0 || r.Skip(k)) && r.Add(k, v) // there may be records before it that are not to be copied
			return all
		})
		if all {
			r.End()
		}
		if x.rnd.IntN(3) == 0 {
			x.write() // behind the scan
		}
		if call, ok := x.source.Scanned(x.now, r, nil); ok {
			calls = append(calls, call)
		}
	}
	for _, call := range calls {
		x.deliver(call)
	}
	if len(x.late) > 0 && x.rnd.IntN(4) == 0 { // a message that was taken for lost comes after all
		call := x.late[0]
		x.late = x.late[1:]
		if c := x.copies[call.To]; c != nil {
			_, _, _ = c.Handle("source", call.Message)
		}
	}
	x.now = x.now.Add(100 * time.Millisecond)
	x.check()
}

func (x *net) deliver(call Call) {
	x.bytes += len(call.Message)
	lost := fmt.Errorf("no answer")
	if x.rnd.Float64() < x.loss {
		x.late = append(x.late, call)
		x.source.Result(x.now, call.ID, nil, lost)
		return
	}
	if x.copies[call.To] == nil {
		x.copies[call.To] = NewCopies(newMemory())
	}
	reply, _, err := x.copies[call.To].Handle("source", call.Message)
	if err != nil {
		x.t.Fatalf("Handle: %v", err)
	}
	if x.rnd.Float64() < x.loss {
		x.source.Result(x.now, call.ID, nil, lost)
		return
	}
	x.source.Result(x.now, call.ID, reply, nil)
}

// check holds every level follower to a state of the source not older than what it acknowledged.
func (x *net) check() {
	for _, f := range x.source.followers {
		if !f.current || !f.level {
			continue
		}
		if !slices.Contains(x.history[f.acked:], x.copyOf(f.name)) {
			x.t.Fatalf("%s is level at %d of %d, and its copy is no state of the source since then", f.name, f.acked, x.source.seq)
		}
	}
	if d := x.source.Durable(); d > x.source.seq {
		x.t.Fatalf("durable %d of %d", d, x.source.seq)
	}
}

func (x *net) settle() {
	x.t.Helper()
	x.loss = 0
	for range 2000 {
		x.step()
		if level, all := x.source.Level(); level == all && x.source.Durable() == x.source.seq && len(x.source.followers) == all {
			return
		}
	}
	x.t.Fatalf("not level after 2000 steps")
}

func never(string) bool { return false }
