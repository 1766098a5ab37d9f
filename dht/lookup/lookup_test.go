package lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// circle are peers in the order of their positions, each of which knows itself and who comes next.
type circle []member.Peer

func newCircle(n int) circle {
	c := make(circle, n)
	for i := range c {
		c[i] = member.New(peer.ID(fmt.Sprintf("peer-%d", i)), nil)
	}
	slices.SortFunc(c, func(p, q member.Peer) int { return p.Key().Compare(q.Key()) })
	return c
}

func (c circle) arc(i int) ring.Arc {
	return ring.Arc{Start: c[(i+len(c)-1)%len(c)].Key(), End: c[i].Key()}
}

func (c circle) call(_ context.Context, to member.Peer, req *wire.Message) (*wire.Message, error) {
	i := slices.IndexFunc(c, func(p member.Peer) bool { return p.ID == to.ID })
	if i < 0 {
		return nil, errors.New("nobody there")
	}
	answer := &wire.NextHopResponse{Closer: member.Wire([]member.Peer{c[(i+1)%len(c)]})}
	if arc := c.arc(i); arc.Contains(ring.Key(req.GetNextHopRequest().GetKey())) {
		answer.Final, answer.Serving = true, true
		answer.Hint = &wire.Hint{Owner: to.Wire(), Start: arc.Start[:], End: arc.End[:]}
	}
	return wire.New(&wire.Message_NextHopResponse{NextHopResponse: answer}), nil
}

// TestSearchFollowsTheCircle: what each peer names leads to the owner, whose arc is told, and a
// failure on the way does no harm.
func TestSearchFollowsTheCircle(t *testing.T) {
	c := newCircle(8)
	s := New("self", c[5].Key(), []member.Peer{member.New("gone", nil), c[2]}, 16)
	Drive(t.Context(), c.call, s, time.Second)
	found, err := s.Found()
	if err != nil || found.Owner.ID != c[5].ID || found.Arc != c.arc(5) || !found.Serving {
		t.Fatalf("found %+v, %v", found, err)
	}
	if last := found.Trace[len(found.Trace)-1]; !last.Final || len(found.Trace) != found.Calls || found.Calls < 4 || found.Calls > 5 {
		t.Errorf("%d calls, trace %v", found.Calls, found.Trace)
	}
}

// TestNamedOwnerIsAskedFirst: before any that is only near.
func TestNamedOwnerIsAskedFirst(t *testing.T) {
	c := newCircle(8)
	s := New("self", c[5].Key(), c[4:6], 16)
	s.Name(c[0])
	now := time.Unix(1e9, 0)
	if p, ok := s.Ask(now); !ok || p.ID != c[0].ID {
		t.Errorf("asks %v first", p)
	}
	if p, ok := s.Ask(now); ok {
		t.Errorf("asks %v beside it", p)
	}
	s.Answer(now, c[0], nil, errors.New("no answer"))
	for range 2 {
		if _, ok := s.Ask(now); !ok {
			t.Error("does not ask two at a time after a failure")
		}
	}
	if met := s.Met(); len(met) != 2 || met[0].ID != c[5].ID {
		t.Errorf("met %v", met)
	}
}

// TestSearchIsBounded: in calls, whomever the answers name, until more peers are brought in.
func TestSearchIsBounded(t *testing.T) {
	c := newCircle(40)
	s := New("self", c[30].Key(), c[:1], 6)
	Drive(t.Context(), c.call, s, time.Second)
	found, err := s.Found()
	if !errors.Is(err, ErrNoOwner) || found.Calls != 6 || !s.Done() {
		t.Fatalf("%d calls, %v", found.Calls, err)
	}
	s.Add(c[29])
	Drive(t.Context(), c.call, s, time.Second)
	if found, err = s.Found(); err != nil || found.Owner.ID != c[30].ID {
		t.Errorf("found %+v, %v", found, err)
	}
	if own := Known(Found{Key: c[1].Key(), Owner: c[1]}); !own.Done() {
		t.Error("what is known is searched for")
	}
	dry := New("self", c[30].Key(), nil, 6)
	if _, err := dry.Found(); !dry.Done() || !errors.Is(err, ErrNoOwner) {
		t.Errorf("without a peer: %v", err)
	}
}

// TestChoosePosition: it goes by the arcs of the owners found, and says why when there are none.
func TestChoosePosition(t *testing.T) {
	c := newCircle(6)
	var candidates []ring.Key
	var arcs []ring.Arc
	for i := range 5 {
		key := ring.HostKey(fmt.Sprintf("place-%d", i))
		candidates = append(candidates, key)
		for i := range c {
			if c.arc(i).Contains(key) {
				arcs = append(arcs, c.arc(i))
			}
		}
	}
	got, err := ChoosePosition(t.Context(), c.call, c[:1], candidates)
	if want := ring.BestPosition(candidates, arcs); err != nil || got != want {
		t.Errorf("candidate %d, %v; want %d", got, err, want)
	}
	if _, err := ChoosePosition(t.Context(), c.call, []member.Peer{member.New("gone", nil)}, candidates); !errors.Is(err, ErrNoOwner) {
		t.Errorf("without an entry: %v", err)
	}
}
