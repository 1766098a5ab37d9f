package ondisk

import (
	"bytes"

	"github.com/apoidea/apoidea/dht/ring"
)

// Records as replicas store them. A replica does not need the order in which URLs wait, so a copy
// has one record for each URL, under the key of its entry: the outcome, or the pending record. The
// owner has two records for a pending URL, and one of them moves with each try. Import reads both
// forms.

// Copied returns the change of a replica for the change of a record; a nil value deletes. False:
// replicas do not need it.
func Copied(key, value []byte) (k, v []byte, ok bool) {
	switch kind := KindOf(key); {
	case kind == KindVisit:
		return nil, nil, false
	case kind == KindEntry:
		return key, value, value == nil || isDone(value)
	case kind != KindReady && kind != KindDelayed:
		return key, value, true
	case value == nil: // moved, or the URL has its outcome: the entry's change is sent
		return nil, nil, false
	default:
		return copiedPending(key, value)
	}
}

// CopiedRecord returns the record that replicas store under a key; false if there is none, as for a
// corrupt record. Get reads related records. If they change concurrently, a later change corrects
// missing or outdated state.
func CopiedRecord(key, value []byte, get func(key []byte) (value []byte, ok bool, err error)) (v []byte, ok bool, err error) {
	switch KindOf(key) {
	case KindReady, KindDelayed, KindVisit:
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

// copiedPending stores a pending record under the key of its entry.
func copiedPending(key, value []byte) (k, v []byte, ok bool) {
	d := newDec(value)
	hash := d.hash()
	at, valid := SpotIn(KindOf(key), key[JobPrefixLen:])
	depth := d.u32()
	if d.Bad || !valid {
		return nil, nil, false
	}
	n := Entry{At: Spot{Depth: depth, Due: at.Due}} // the order is local to the owner
	return EntryKey(ring.Pos(key[1:]), JobIn(key), hash), append(n.Encode(), value[1:]...), true
}

// isDone reports whether an entry has its outcome.
func isDone(value []byte) bool {
	d := newDec(value)
	return d.bool() && !d.Bad
}
