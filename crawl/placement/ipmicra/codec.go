package ipmicra

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/storage/kv"
)

// maxRTT is the upper limit of a round trip.
const maxRTT = time.Minute

// ErrRecord means that bytes are not a valid record, or that a record exceeds a limit.
var ErrRecord = errors.New("malformed placement record")

// AppendBinary appends the encoding to b. It is canonical: no other bytes parse as the same record,
// so equal records have equal digests. The error is ErrRecord when a limit is exceeded.
func (s *Subnet) AppendBinary(b []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	b = append(b, byte(KindSubnet))
	b = appendPrefix(b, s.Prefix)
	b = appendEpoch(b, s.Epoch)
	b = appendString(b, s.Worker)
	b = appendString(b, s.Organisation)
	b = binary.AppendVarint(b, s.Since.UnixMilli())
	b = binary.AppendUvarint(b, uint64(len(s.Probes)))
	for _, peer := range slices.Sorted(maps.Keys(s.Probes)) {
		p := s.Probes[peer]
		b = appendString(b, peer)
		b = binary.AppendUvarint(b, uint64(p.RTT.Microseconds())) // checked above
		b = binary.AppendVarint(b, p.At.UnixMilli())
	}
	return b, nil
}

func (s *Subnet) check() error {
	switch {
	case !s.Prefix.IsValid() || s.Prefix != s.Prefix.Masked():
		return fmt.Errorf("%w: subnet %v", ErrRecord, s.Prefix)
	case len(s.Epoch.Peer) > MaxPeer || len(s.Worker) > MaxPeer:
		return fmt.Errorf("%w: subnet %v: peer ID over %d bytes", ErrRecord, s.Prefix, MaxPeer)
	case len(s.Organisation) > MaxOrganisation:
		return fmt.Errorf("%w: subnet %v: organization of %d bytes, at most %d", ErrRecord, s.Prefix, len(s.Organisation), MaxOrganisation)
	case len(s.Probes) > MaxProbes:
		return fmt.Errorf("%w: subnet %v: %d probes, at most %d", ErrRecord, s.Prefix, len(s.Probes), MaxProbes)
	}
	for peer, p := range s.Probes {
		if len(peer) > MaxPeer || p.RTT < 0 || p.RTT > maxRTT {
			return fmt.Errorf("%w: subnet %v: probe of %v by an ID of %d bytes", ErrRecord, s.Prefix, p.RTT, len(peer))
		}
	}
	return nil
}

// ParseSubnet reads what AppendBinary wrote. The error is ErrRecord.
func ParseSubnet(b []byte) (*Subnet, error) {
	r := reader{rest: b}
	r.header(KindSubnet)
	s := &Subnet{Prefix: r.prefix()}
	s.Epoch = r.epoch()
	s.Worker = r.string(MaxPeer)
	s.Organisation = r.string(MaxOrganisation)
	s.Since = r.time()
	last := ""
	for i := range r.count(MaxProbes) {
		peer := r.string(MaxPeer)
		us := r.uvarint()
		if us > uint64(maxRTT.Microseconds()) {
			r.fail("probe of %d us", us)
		}
		if i > 0 && peer <= last {
			r.fail("probes out of order")
		}
		p := Probe{RTT: time.Duration(us) * time.Microsecond} // bounded
		p.At = r.time()
		if r.err != nil {
			break
		}
		if s.Probes == nil {
			s.Probes = make(map[string]Probe)
		}
		s.Probes[peer], last = p, peer
	}
	if !s.Prefix.IsValid() {
		r.fail("subnet without a prefix")
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("subnet: %w", err)
	}
	return s, nil
}

// AppendBinary appends the encoding to b. The error is ErrRecord when a limit is exceeded.
func (x *Index) AppendBinary(b []byte) ([]byte, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	b = append(b, byte(x.Key.Kind))
	if x.Key.Kind == KindOrganisation {
		b = appendString(b, x.Key.Organisation)
	} else {
		b = appendPrefix(b, x.Key.Prefix)
	}
	b = binary.AppendUvarint(b, uint64(len(x.Entries)))
	for _, e := range x.Entries {
		b = appendPrefix(b, e.Prefix)
		b = appendEpoch(b, e.Epoch)
		b = appendString(b, e.Worker)
		b = append(b, kv.Flag(e.Below))
	}
	return b, nil
}

func (x *Index) check() error {
	switch {
	case x.Key.Kind != KindChildren && x.Key.Kind != KindOrganisation:
		return fmt.Errorf("%w: index of kind %d", ErrRecord, x.Key.Kind)
	case len(x.Key.Organisation) > MaxOrganisation || len(x.Entries) > MaxEntries:
		return fmt.Errorf("%w: index of %d entries, organization of %d bytes", ErrRecord, len(x.Entries), len(x.Key.Organisation))
	case x.Key.Prefix.IsValid() && x.Key.Prefix != x.Key.Prefix.Masked():
		return fmt.Errorf("%w: index of %v", ErrRecord, x.Key.Prefix)
	}
	for i, e := range x.Entries {
		if !e.Prefix.IsValid() || e.Prefix != e.Prefix.Masked() || len(e.Worker) > MaxPeer || len(e.Epoch.Peer) > MaxPeer {
			return fmt.Errorf("%w: index entry %d, %v", ErrRecord, i, e.Prefix)
		}
		if i > 0 && e.Prefix.Compare(x.Entries[i-1].Prefix) <= 0 {
			return fmt.Errorf("%w: index entries out of order at %v", ErrRecord, e.Prefix)
		}
	}
	return nil
}

// ParseIndex reads what AppendBinary wrote. The error is ErrRecord.
func ParseIndex(b []byte) (*Index, error) {
	r := reader{rest: b}
	x := new(Index)
	if len(b) > 0 && Kind(b[0]) == KindOrganisation {
		r.header(KindOrganisation)
		x.Key = Key{Kind: KindOrganisation, Organisation: r.string(MaxOrganisation)}
	} else {
		r.header(KindChildren)
		x.Key = Key{Kind: KindChildren, Prefix: r.prefix()}
	}
	for range r.count(MaxEntries) {
		e := Entry{Prefix: r.prefix()}
		e.Epoch = r.epoch()
		e.Worker = r.string(MaxPeer)
		e.Below = r.flag()
		if r.err != nil {
			break
		}
		if last := len(x.Entries) - 1; !e.Prefix.IsValid() || last >= 0 && e.Prefix.Compare(x.Entries[last].Prefix) <= 0 {
			r.fail("entry %v out of order", e.Prefix)
			break
		}
		x.Entries = append(x.Entries, e)
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return x, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendEpoch(b []byte, e Epoch) []byte {
	return appendString(binary.AppendUvarint(b, e.Counter), e.Peer)
}

// appendPrefix appends the length of the address, the address, and the bits; the zero Prefix is an
// address of length 0.
func appendPrefix(b []byte, p netip.Prefix) []byte {
	if !p.IsValid() {
		return append(b, 0)
	}
	addr := p.Addr().AsSlice()
	b = append(b, byte(len(addr)))
	return append(append(b, addr...), byte(p.Bits()))
}

// reader reads fields up to the first invalid one; from then on it returns zero values.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrRecord}, args...)...)
		r.rest = nil
	}
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.fail("truncated")
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) header(kind Kind) {
	if h := r.take(1); Kind(h[0]) != kind {
		r.fail("kind %d", h[0])
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 { // the shortest form only
		r.fail("number")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) time() time.Time {
	v := r.uvarint()
	ms := int64(v>>1) ^ -int64(v&1) // zigzag, as AppendVarint writes it
	return time.UnixMilli(ms).UTC()
}

func (r *reader) count(limit int) int {
	n := r.uvarint()
	if n > uint64(limit) {
		r.fail("%d elements, at most %d", n, limit)
		return 0
	}
	return int(n) // bounded
}

func (r *reader) string(limit int) string {
	n := r.count(limit)
	return string(r.take(n))
}

func (r *reader) flag() bool {
	b := r.take(1)[0]
	if b > 1 {
		r.fail("flag %d", b)
	}
	return b == 1
}

func (r *reader) epoch() Epoch {
	e := Epoch{Counter: r.uvarint()}
	e.Peer = r.string(MaxPeer)
	return e
}

func (r *reader) prefix() netip.Prefix {
	n := int(r.take(1)[0])
	if n == 0 {
		return netip.Prefix{}
	}
	if n != 4 && n != 16 {
		r.fail("address of %d bytes", n)
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(r.take(n))
	bits := int(r.take(1)[0])
	p := netip.PrefixFrom(addr, bits)
	if r.err != nil || !p.IsValid() || p != p.Masked() {
		r.fail("prefix %v/%d", addr, bits)
		return netip.Prefix{}
	}
	return p
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d trailing bytes", len(r.rest))
	}
	return r.err
}
