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
	s.Name(c[0], ring.Arc{Start: c[4].Key(), End: c[0].Key()})
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

// TestWhoClaims: who says that all is its own is the owner only by the votes of others, with the
// shortest arc that any of them told; one that is known counts as two.
func TestWhoClaims(t *testing.T) {
	c := newCircle(8)
	liar, key, now := member.New("liar", nil), c[5].Key(), time.Unix(1e9, 0)
	claims := func(p member.Peer) *wire.NextHopResponse {
		at := p.Key()
		return &wire.NextHopResponse{Final: true, Serving: true, Hint: &wire.Hint{Owner: p.Wire(), Start: at[:], End: at[:]}}
	}
	votes := func(p member.Peer, start ring.Key) *wire.NextHopResponse {
		at := p.Key()
		return &wire.NextHopResponse{Known: true, Hint: &wire.Hint{Owner: p.Wire(), Start: start[:], End: at[:]}}
	}
	truth := votes(c[5], c[4].Key())
	for _, row := range []struct {
		name    string
		known   int // of c, -1: none
		answers map[peer.ID]*wire.NextHopResponse
		want    member.Peer
		calls   int
	}{
		{"nobody else answers", -1, map[peer.ID]*wire.NextHopResponse{"liar": claims(liar)}, liar, 6},
		{"one vote against its word", -1, map[peer.ID]*wire.NextHopResponse{"liar": claims(liar), c[1].ID: truth, c[5].ID: claims(c[5])}, c[5], 7},
		{"two votes", -1, map[peer.ID]*wire.NextHopResponse{"liar": claims(liar), c[1].ID: truth, c[2].ID: truth, c[5].ID: claims(c[5])}, c[5], 0},
		{"its own vote", -1, map[peer.ID]*wire.NextHopResponse{"liar": votes(liar, key), c[1].ID: truth, c[2].ID: truth, c[5].ID: claims(c[5])}, c[5], 0},
		{"a vote for it, and that of one who is known", 2, map[peer.ID]*wire.NextHopResponse{
			"liar": claims(liar), c[1].ID: votes(liar, liar.Key()), c[2].ID: truth, c[5].ID: claims(c[5]),
		}, c[5], 0},
	} {
		s := New("self", key, []member.Peer{liar, c[1], c[2], c[3], c[6], c[7]}, 16)
		if row.known >= 0 {
			s.Know(c[row.known])
		}
		for !s.Done() {
			to, ok := s.Ask(now)
			if !ok {
				t.Fatalf("%s: nobody is asked", row.name)
			}
			if a := row.answers[to.ID]; a != nil {
				s.Answer(now, to, wire.New(&wire.Message_NextHopResponse{NextHopResponse: a}), nil)
			} else {
				s.Answer(now, to, nil, errors.New("no answer"))
			}
		}
		found, err := s.Found()
		if err != nil || found.Owner.ID != row.want.ID || row.calls > 0 && found.Calls != row.calls {
			t.Errorf("%s: %v after %d calls, %v; want %v", row.name, found.Owner, found.Calls, err, row.want)
		}
		if row.want.ID == c[5].ID && found.Arc != c.arc(5) {
			t.Errorf("%s: arc %v, want %v", row.name, found.Arc, c.arc(5))
		}
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
