package bandwidth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
)

// A server's record: the key is its address; the value is the time of last use (seconds since 1970,
// 8 bytes), flow, wait and the 48 estimates (4 bytes each), all big-endian.
const recordLen = 8 + 4*(2+cells)

// ErrRecord is returned for an invalid record.
var ErrRecord = errors.New("invalid server record")

// Store is the disk storage of the table.
type Store interface {
	// Scan calls fn with every key and value, valid during the call, until it returns false.
	Scan(fn func(key, value []byte) bool) error
	// Write sets the keys with a value and deletes those without one, atomically.
	Write(records map[string][]byte) error
}

// Load reads the table from a store; if there are too many servers it retains the most recently
// used. It skips invalid records, which the next Save deletes: each costs one estimate.
func (e *Estimates) Load(store Store) error {
	var all []*server
	err := store.Scan(func(key, value []byte) bool {
		s, err := decodeServer(key, value)
		if err != nil {
			if addr, ok := netip.AddrFromSlice(key); ok {
				e.changed[addr] = true
			}
			return true
		}
		all = append(all, s)
		return true
	})
	if err != nil {
		return fmt.Errorf("bandwidth estimates: %w", err)
	}
	sorted := &Estimates{servers: make(map[netip.Addr]*server, len(all))}
	for _, s := range all {
		sorted.servers[s.addr] = s
	}
	for _, s := range sorted.recent() {
		to := e.add(s.addr)
		place := to.place
		*to = *s
		to.place = place
	}
	return nil
}

// Changes returns the pending changes: the records of servers that changed since, nil for removed
// ones.
func (e *Estimates) Changes() map[string][]byte {
	if len(e.changed) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(e.changed))
	for addr := range e.changed {
		key := string(addr.AsSlice())
		if s := e.servers[addr]; s != nil {
			out[key] = s.encode()
		} else {
			out[key] = nil
		}
	}
	clear(e.changed)
	return out
}

func (s *server) encode() []byte {
	out := make([]byte, 0, recordLen)
	out = binary.BigEndian.AppendUint64(out, uint64(s.usedAt)) // seconds since 1970
	for _, v := range slices.Concat([]float32{s.flow, s.wait}, s.rates[:]) {
		out = binary.BigEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func decodeServer(key, value []byte) (*server, error) {
	addr, ok := netip.AddrFromSlice(key)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: address of %d bytes", ErrRecord, len(key))
	case len(value) != recordLen:
		return nil, fmt.Errorf("%w: %s: %d bytes, want %d", ErrRecord, addr, len(value), recordLen)
	}
	s := &server{addr: addr, usedAt: int64(binary.BigEndian.Uint64(value))} // used for sorting only
	var v [2 + cells]float32
	for i := range v {
		v[i] = math.Float32frombits(binary.BigEndian.Uint32(value[8+4*i:]))
		if !(v[i] >= 0 && v[i] <= MaxRate) {
			return nil, fmt.Errorf("%w: %s: rate %v", ErrRecord, addr, v[i])
		}
	}
	s.flow, s.wait = v[0], v[1]
	copy(s.rates[:], v[2:])
	return s, nil
}
