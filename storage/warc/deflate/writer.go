// Package deflate makes gzip members (RFC 1951, RFC 1952) of records that lie in memory, as fast as that goes while text still becomes several times smaller.
//
// It does what the fastest levels of others do, for members of some kilobytes, each packed alone: one look at a position, no better match is searched for. A
// page is packed as three members, and what is done once for each block, the codes above all, costs others as much as half a page does. What it writes is the
// same for the same bytes.
package deflate

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

const (
	// reach is how far back a match may lie, minMatch and maxMatch how long it is.
	reach    = 32 << 10
	minMatch = 4
	maxMatch = 258
	// room is what is looked at together: what was packed before, as far as matches reach, and the next block, which fits into one that is stored.
	room = 64<<10 - 1
	// hashBits is for how many kinds of positions the last one is known; fewBits for a small member, as the table is cleared for each.
	hashBits = 14
	fewBits  = 10
	// patience is after how many literals not every position is looked at any more.
	patience = 32
	// margin is how many bytes are read at once.
	margin = 8
)

// Writer makes one member after another. The zero value is ready. It is not safe for concurrent use.
type Writer struct {
	out  []byte
	acc  uint64 // bits that are still to be put out, the first one lowest
	bits uint   // how many, less than eight between blocks
	sum  uint32
	size uint32

	buf      [room]byte
	from, to int    // what of buf is still to be packed
	base     uint16 // added to a place in buf it is one in the member, but for what does not fit into 16 bits

	last    [1 << hashBits]uint16 // where four bytes of this kind stood last
	shift   int                   // of a hash, to a place in last; 0 before the first block
	matches []match

	literals  code // and lengths
	distances code
	lengths   code // of the words' lengths
	table     []run
}

// match is a number of literals, and a repetition behind them.
type match struct {
	literals uint16
	length   uint16
	distance uint16 // less one
}

// The head of a member: no name, no time, made in a hurry on no system in particular.
var head = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}

// Begin begins a member, which is to be appended to out.
func (w *Writer) Begin(out []byte) {
	w.out = append(out, head...)
	w.acc, w.bits, w.sum, w.size = 0, 0, 0, 0
	w.from, w.to, w.base, w.shift = 0, 0, 0, 0
}

// Write puts p into the member.
func (w *Writer) Write(p []byte) {
	w.sum = crc32.Update(w.sum, crc32.IEEETable, p)
	w.size += uint32(len(p)) //nolint:gosec // the format has it modulo 2^32
	for len(p) > 0 {
		if w.to == room {
			w.block(false)
			w.slide()
		}
		n := copy(w.buf[w.to:], p)
		w.to += n
		p = p[n:]
	}
}

// End ends the member, and returns out with it.
func (w *Writer) End() []byte {
	w.block(true)
	w.align()
	out := binary.LittleEndian.AppendUint32(w.out, w.sum)
	w.out = nil
	return binary.LittleEndian.AppendUint32(out, w.size)
}

// slide makes room for the next block.
func (w *Writer) slide() {
	copy(w.buf[:reach], w.buf[room-reach:])
	w.from, w.to = reach, reach
	w.base += room - reach
}

// block packs what is gathered.
func (w *Writer) block(final bool) {
	if w.shift == 0 {
		n := min(max(bits.Len(uint(w.to)), fewBits), hashBits) //nolint:gosec // not negative
		w.shift = 64 - n
		clear(w.last[:1<<n])
	}
	w.literals.clear(endOfBlock + 1 + lengthSymbols)
	w.distances.clear(distanceSymbols)
	w.matches = w.matches[:0]
	w.search()
	w.pack(final)
	w.from = w.to
}

// hash is of five bytes: four that are the same seldom make a match that is worth it.
func hash(x uint64, shift int) uint64 {
	return x << 24 * 889523592379 >> (shift & 63) & (1<<hashBits - 1)
}

// search finds matches, and counts what is to be written.
func (w *Writer) search() {
	src, base, shift := w.buf[:w.to], w.base, w.shift
	literal := w.from // the first that no match has
	at := w.from
	for at+margin <= len(src) {
		x := binary.LittleEndian.Uint64(src[at:])
		h := hash(x, shift)
		place := base + uint16(at) //nolint:gosec // cut on purpose
		back := place - w.last[h]
		w.last[h] = place
		distance := int(back)
		if back-1 >= reach || binary.LittleEndian.Uint32(src[at-distance:]) != uint32(x) { //nolint:gosec // cut on purpose
			at += 1 + max(at-literal-patience, 0)>>5
			continue
		}
		begin, end := at, at+minMatch
		for begin > literal && begin > distance && src[begin-1] == src[begin-1-distance] {
			begin--
		}
		end = repeated(src, end, distance)
		w.found(src[literal:begin], end-begin, distance)
		literal, at = end, end
		if end+margin <= len(src) {
			w.last[hash(binary.LittleEndian.Uint64(src[end-1:]), shift)] = base + uint16(end-1) //nolint:gosec // cut on purpose
		}
	}
	w.literals.count(src[literal:])
}

// found notes literals and a match behind them.
func (w *Writer) found(literals []byte, length, distance int) {
	w.literals.count(literals)
	n := len(literals)
	for length > 0 {
		part := min(length, maxMatch)
		if rest := length - part; rest > 0 && rest < minMatch {
			part -= minMatch
		}
		length -= part
		w.literals.freq[lengthSymbol[part]]++
		w.distances.freq[distanceSymbol(distance-1)]++
		w.matches = append(w.matches, match{uint16(n), uint16(part), uint16(distance - 1)}) //nolint:gosec // all less than room
		n = 0
	}
}

// repeated is up to where a text goes on from a place as it does so far before.
func repeated(src []byte, end, distance int) int {
	for end+8 <= len(src) {
		if x := binary.LittleEndian.Uint64(src[end:]) ^ binary.LittleEndian.Uint64(src[end-distance:]); x != 0 {
			return end + bits.TrailingZeros64(x)/8
		}
		end += 8
	}
	for end < len(src) && src[end] == src[end-distance] {
		end++
	}
	return end
}
