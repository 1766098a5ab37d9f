package handoff

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// shelf is an ordered map of records: position and suffix, to a version with padding.
type shelf map[string]string

func version(value string) uint64 { return binary.BigEndian.Uint64([]byte(value)) }

// Next implements Reader.
func (s shelf) Next(from ring.Pos) (pos ring.Pos, ok bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if key >= string(from[:]) {
			return ring.Pos([]byte(key)), true, nil
		}
	}
	return pos, false, nil
}

// Export implements Reader.
func (s shelf) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(key, string(pos[:])) && key >= string(from) && !fn([]byte(key), []byte(s[key])) {
			return nil
		}
	}
	return nil
}

func (s shelf) drop(lo, hi ring.Pos) {
	maps.DeleteFunc(s, func(key, _ string) bool {
		return key[:ring.PosSize] >= string(lo[:]) && key[:ring.PosSize] <= string(hi[:])
	})
}

func (s shelf) merge(key, value string) {
	if had, ok := s[key]; !ok || version(value) > version(had) {
		s[key] = value
	}
}

// ship brings the followers level; false if one of them serves what this peer believes its own, so
// that nothing may be acknowledged.
func (p *keep) ship() (ok bool) {
	ok = true
	followers := p.followers()
	for _, id := range followers {
		f := p.w.peer(id)
		switch {
		case !f.up:
		case f.Serves(ring.PosOf(p.key)):
			ok = false
		default:
			f.copies[p.id] = maps.Clone(p.own)
			p.level[id] = true
		}
	}
	for _, f := range p.w.peers {
		if f != p && f.up && p.level[f.id] && !slices.Contains(followers, f.id) {
			delete(f.copies, p.id)
			delete(p.level, f.id)
		}
	}
	return ok
}

// space is a peer's own records.
type space struct{ p *keep }

func (s space) Next(from ring.Pos) (ring.Pos, bool, error) {
	if s.p.fails > 0 {
		s.p.fails--
		return ring.Pos{}, false, errNet
	}
	return s.p.own.Next(from)
}

func (s space) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	return s.p.own.Export(pos, from, fn)
}

func (s space) Note(pos ring.Pos) []byte { return pos[:1] }

// Remove holds that one living disk has all that is removed, as one.
func (s space) Remove(pos ring.Pos) error {
	p := s.p
	if p.sticky > 0 {
		p.sticky--
		return errNet
	}
	p.w.moved++
	if p.Serves(pos) {
		p.w.t.Fatalf("%s removes what it serves, at %x", p.id, pos[:2])
	}
	var holders []string
	for _, q := range p.w.peers {
		if q == p || q.own == nil {
			continue
		}
		if p.w.covers(q.own, p.own, pos) {
			return p.remove(pos)
		}
		for _, c := range q.copies {
			if p.w.covers(c, p.own, pos) {
				return p.remove(pos)
			}
		}
		holders = append(holders, string(q.id))
	}
	p.w.t.Fatalf("%s removes %x, and nobody of %v has all of it", p.id, pos[:2], holders)
	return nil
}

func (p *keep) remove(pos ring.Pos) error {
	p.own.drop(pos, pos)
	p.ship()
	return nil
}

// copiesOf finds the copies here.
type copiesOf struct{ p *keep }

func (c copiesOf) Sources() ([]peer.ID, error) { return slices.Sorted(maps.Keys(c.p.copies)), nil }
func (c copiesOf) Of(source peer.ID) Reader    { return c.p.copies[source] }
