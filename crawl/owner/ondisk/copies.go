package ondisk

import (
	"bytes"

	"github.com/apoidea/apoidea/dht/ring"
)

// What other peers keep of these records. They have no use for the order in which URLs wait, so a
// copy has one record for each URL, under the key of its entry: the outcome, or what waits for one.
// Here the latter takes two, of which the one that waits moves with each try. Import reads both
// forms.

// Copied says what a change of a record is for its copies; a nil value deletes. False: they need
// not hear of it.
func Copied(key, value []byte) (k, v []byte, ok bool) {
	switch kind := KindOf(key); {
	case kind == KindEntry:
		return key, value, value == nil || isDone(value)
	case kind != KindReady && kind != KindDelayed:
		return key, value, true
	case value == nil: // it lies elsewhere, or the URL has its outcome: that is told there
		return nil, nil, false
	default:
		return copiedPending(key, value)
	}
}

// CopiedRecord says what copies have under the key of a record; false: nothing, as of one that
// cannot be read. Get reads the records beside it. Should they be changing meanwhile, then what is
// missed or old here comes with a later change.
func CopiedRecord(key, value []byte, get func(key []byte) (value []byte, ok bool, err error)) (v []byte, ok bool, err error) {
	switch KindOf(key) {
	case KindReady, KindDelayed:
		return nil, false, nil
	case KindEntry:
		if isDone(value) {
			return value, true, nil
		}
	default:
		return value, true, nil
	}
	n, derr := DecodeEntry(value)
	if derr != nil {
		return nil, false, nil
	}
	at := n.At.Key(ring.Pos(key[1:]), JobIn(key))
	raw, ok, err := get(at)
	if !ok || err != nil {
		return nil, false, err
	}
	k, v, ok := copiedPending(at, raw)
	return v, ok && bytes.Equal(k, key), nil
}

// KindOf returns the kind of a record of a host and job, by its key; 0 for others.
func KindOf(key []byte) byte {
	if len(key) < JobPrefixLen || key[0] != SpaceHost {
		return 0
	}
	return key[1+ring.PosSize]
}

// copiedPending puts what waits under the key of its entry.
func copiedPending(key, value []byte) (k, v []byte, ok bool) {
	d := newDec(value)
	hash := d.hash()
	at, valid := SpotIn(KindOf(key), key[JobPrefixLen:])
	depth := d.u32()
	if d.Bad || !valid {
		return nil, nil, false
	}
	n := Entry{At: Spot{Depth: depth, Due: at.Due}} // where it stands among others is this owner's affair
	return EntryKey(ring.Pos(key[1:]), JobIn(key), hash), append(n.Encode(), value[1:]...), true
}

// isDone says whether an entry has its outcome.
func isDone(value []byte) bool {
	d := newDec(value)
	return d.bool() && !d.Bad
}
