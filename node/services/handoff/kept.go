package handoff

import (
	"bytes"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// Records that are handed to the new owner of an arc are retained, as a copy that the new owner
// cannot modify, until that peer's own copy here shows the same positions: it may make a false
// claim, or die before others have a copy. A false claim deletes nothing permanently: when the peer
// is no longer near on the ring the records are taken over as from any other copy. Before that they
// stay, whatever their owner: it hands them on itself.

// keptFor is how long records are retained that their owner does not show.
const keptFor = time.Hour

// keptMark is the prefix of the names of these copies; no peer ID begins with it.
const keptMark = "kept of "

// Kept returns the name of the copy of what was handed to a peer.
func Kept(of peer.ID) peer.ID { return keptMark + of }

// Owner returns the peer whose records the copy of a source has.
func Owner(source peer.ID) peer.ID { return peer.ID(strings.TrimPrefix(string(source), keptMark)) }

// IsKept reports whether a source is the retained copy of a handoff.
func IsKept(source peer.ID) bool { return strings.HasPrefix(string(source), keptMark) }

// lastPos is the last position of the circle.
var lastPos = ring.Pos(bytes.Repeat([]byte{0xff}, ring.PosSize))

// shown reports whether a position of the present source, which is in its place, is also in the
// copy of its owner, so that it need not be retained. Only retained copies are shown.
func (k *Keeper) shown(pos ring.Pos) (bool, error) {
	w := k.walk
	if w.own || !IsKept(w.sources[0]) {
		return false, nil
	}
	at, ok, err := k.copies.Of(Owner(w.sources[0])).Next(pos)
	return ok && at == pos, err
}

// kept is the state of a walk over a retained copy.
type kept struct {
	some    bool // records
	unshown bool // some are in their place, and their owner does not show them
	left    bool // some are not in their place, and could not be pushed
}

// spent reports at the end of a source whether its retained copy may be deleted.
func (k *Keeper) spent(now time.Time, source peer.ID) bool {
	seen := k.walk.kept
	if !IsKept(source) || !seen.some || seen.left {
		return false
	}
	since, ok := k.kept[source]
	if !ok {
		since = now
		k.kept[source] = now
	}
	if !seen.unshown || now.Sub(since) >= keptFor {
		delete(k.kept, source)
		return true
	}
	return false
}
