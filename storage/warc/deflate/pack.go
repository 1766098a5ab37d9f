package deflate

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Kinds of blocks.
const (
	blockStored = iota
	blockFixed
	blockDynamic
)

// pack writes the block that was searched, in codes made for it, or as it is where that is not longer.
func (w *Writer) pack(final bool) {
	flag := uint64(0)
	if final {
		flag = 1
	}
	if w.from == w.to {
		w.put(flag|blockFixed<<1, 3+7) // nothing, and in fixed codes the end of the block is seven zeros
		return
	}
	w.literals.freq[endOfBlock] = 1
	w.literals.make(longest)
	if len(w.matches) == 0 {
		w.distances.freq[0] = 1 // there are readers that want one
	}
	w.distances.make(longest)
	size := w.tabulate() + w.literals.bits(&lengthExtra) + w.distances.bits(&distanceExtra)
	if size >= 8*(w.to-w.from+4) {
		w.put(flag|blockStored<<1, 3)
		w.align()
		n := uint16(w.to - w.from) //nolint:gosec // at most room
		w.out = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(w.out, n), ^n)
		w.out = append(w.out, w.buf[w.from:w.to]...)
		return
	}
	w.put(flag|blockDynamic<<1, 3)
	w.putTable()
	w.putMatches(size)
	end := w.literals.word[endOfBlock]
	w.put(uint64(end&(1<<wordBits-1)), uint(end>>wordBits))
}

// put writes n bits, 32 at most.
func (w *Writer) put(x uint64, n uint) {
	w.acc |= x << w.bits
	for w.bits += n; w.bits >= 8; w.bits -= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
	}
}

// align writes what is left of a byte.
func (w *Writer) align() {
	if w.bits > 0 {
		w.put(0, 8-w.bits)
	}
}

// run is a symbol of the table of words' lengths, with what follows it.
type run struct{ symbol, extra uint8 }

// Symbols of the table beside the lengths up to 15.
const (
	again     = 16 // the length before 3 to 6 times more, in two bits
	zeros     = 17 // 3 to 10 zeros, in three bits
	moreZeros = 18 // 11 to 138 zeros, in seven bits
	tableEnd  = 19
)

// tableOrder is the order in which the lengths of the table's own words are told.
var tableOrder = [tableEnd]uint8{again, zeros, moreZeros, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// tableExtra is how many bits follow a symbol of the table.
var tableExtra = [maxSymbols]uint8{again: 2, zeros: 3, moreZeros: 7}

// tabulate makes the table of the lengths of all words, and says how many bits it takes.
func (w *Writer) tabulate() int {
	w.table = w.table[:0]
	w.lengths.clear(tableEnd)
	var list [2 * maxSymbols]uint8
	n := copy(list[:], w.literals.length[:w.literals.ends()])
	n += copy(list[n:], w.distances.length[:w.distances.ends()])
	for rest := list[:n]; len(rest) > 0; {
		length, many := rest[0], 1
		for many < len(rest) && rest[many] == length {
			many++
		}
		rest = rest[many:]
		if length > 0 {
			w.note(length, 0)
			many--
		}
		for many > 0 {
			switch {
			case many < 3:
				w.note(length, 0)
				many--
			case length > 0:
				part := min(many, 6)
				w.note(again, part-3)
				many -= part
			case many < 11:
				w.note(zeros, many-3)
				many = 0
			default:
				part := min(many, 138)
				w.note(moreZeros, part-11)
				many -= part
			}
		}
	}
	w.lengths.make(longestLength)
	return 5 + 5 + 4 + 3*w.told() + w.lengths.bits(&tableExtra)
}

// note adds to the table.
func (w *Writer) note(symbol uint8, extra int) {
	w.lengths.freq[symbol]++
	w.table = append(w.table, run{symbol, uint8(extra)}) //nolint:gosec // at most 127
}

// told is how many lengths of the table's own words are told.
func (w *Writer) told() int {
	n := tableEnd
	for n > 4 && w.lengths.length[tableOrder[n-1]] == 0 {
		n--
	}
	return n
}

// putTable writes the table.
func (w *Writer) putTable() {
	told := w.told()
	w.put(uint64(w.literals.ends()-endOfBlock-1), 5) //nolint:gosec // not negative
	w.put(uint64(w.distances.ends()-1), 5)           //nolint:gosec // not negative
	w.put(uint64(told-4), 4)                         //nolint:gosec // not negative
	for _, symbol := range tableOrder[:told] {
		w.put(uint64(w.lengths.length[symbol]), 3)
	}
	for _, r := range w.table {
		word := w.lengths.word[r.symbol]
		w.put(uint64(word&(1<<wordBits-1)), uint(word>>wordBits))
		w.put(uint64(r.extra), uint(tableExtra[r.symbol]))
	}
}

// putMatches writes matches and literals, of which it is known how many bits they take at most.
func (w *Writer) putMatches(size int) {
	out := slices.Grow(w.out, size/8+2*margin)
	end := len(out)
	out = out[:cap(out)]
	acc, n := w.acc, uint64(w.bits)
	words, distances := &w.literals.word, &w.distances.word
	src := w.buf[w.from:w.to]
	for i := 0; i <= len(w.matches); i++ {
		literals := src
		if i < len(w.matches) {
			literals = src[:w.matches[i].literals]
		}
		src = src[len(literals):]
		for len(literals) >= 4 {
			a, b, c, d := words[literals[0]], words[literals[1]], words[literals[2]], words[literals[3]]
			literals = literals[4:]
			acc |= uint64(uint16(a)) << (n & 63) //nolint:gosec // the word
			n += uint64(a >> wordBits)
			acc |= uint64(uint16(b)) << (n & 63) //nolint:gosec // the word
			n += uint64(b >> wordBits)
			acc |= uint64(uint16(c)) << (n & 63) //nolint:gosec // the word
			n += uint64(c >> wordBits)
			acc |= uint64(uint16(d)) << (n & 63) //nolint:gosec // the word
			n += uint64(d >> wordBits)
			binary.LittleEndian.PutUint64(out[end:], acc)
			end += int(n >> 3) //nolint:gosec // at most 7
			acc >>= n & 56
			n &= 7
		}
		for _, v := range literals { // three at most
			a := words[v]
			acc |= uint64(uint16(a)) << (n & 63) //nolint:gosec // the word
			n += uint64(a >> wordBits)
		}
		binary.LittleEndian.PutUint64(out[end:], acc)
		end += int(n >> 3) //nolint:gosec // at most 6
		acc >>= n & 56
		n &= 7
		if i == len(w.matches) {
			break
		}
		m := w.matches[i]
		src = src[m.length:]
		symbol := lengthSymbol[m.length]
		a := words[symbol]
		acc |= uint64(uint16(a)) << (n & 63) //nolint:gosec // the word
		n += uint64(a >> wordBits)
		acc |= uint64(m.length-lengthBase[symbol]) << (n & 63)
		n += uint64(lengthExtra[symbol])
		a = distances[distanceSymbol(int(m.distance))]
		acc |= uint64(uint16(a)) << (n & 63) //nolint:gosec // the word
		n += uint64(a >> wordBits)
		if few := bits.Len16(m.distance) - 2; few > 0 {
			acc |= uint64(m.distance&(1<<few-1)) << (n & 63)
			n += uint64(few)
		}
		binary.LittleEndian.PutUint64(out[end:], acc)
		end += int(n >> 3) //nolint:gosec // at most 6
		acc >>= n & 56
		n &= 7
	}
	w.out, w.acc, w.bits = out[:end], acc, uint(n)
}
