package custody

import (
	"bytes"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// What a peer hands to the new owner of an arc it keeps, as a copy that the new owner cannot
// change, until that one's own copy here shows the same positions: it may be a liar, or die before
// others have a copy. Whoever only says that it has the records brings nothing away for good: when
// it is not near on the ring any more they are taken over as from any other copy. Before that they
// stay, whoever answers for them: it hands them on itself.

// keptFor is how long that is kept of which the owner shows nothing: it may have other followers.
const keptFor = time.Hour

// keptMark begins the names of these copies; no peer is called so.
const keptMark = "kept of "

// Kept names the copy of what was handed to a peer.
func Kept(of peer.ID) peer.ID { return keptMark + of }

// Owner is whose records the copy of a source has.
func Owner(source peer.ID) peer.ID { return peer.ID(strings.TrimPrefix(string(source), keptMark)) }

// IsKept says whether a source is what was handed to a peer.
func IsKept(source peer.ID) bool { return strings.HasPrefix(string(source), keptMark) }

// lastPos is the last position of the circle.
var lastPos = ring.Pos(bytes.Repeat([]byte{0xff}, ring.PosSize))

// shown says of a position of the present source, which is in its place, whether the copy of its
// owner has it too, so that it need not be kept. Others than kept ones are never shown.
func (k *Keeper) shown(pos ring.Pos) (bool, error) {
	w := k.walk
	if w.own || !IsKept(w.sources[0]) {
		return false, nil
	}
	at, ok, err := k.copies.Of(Owner(w.sources[0])).Next(pos)
	return ok && at == pos, err
}

// kept is what a walk has seen of a source of those that are kept.
type kept struct {
	some    bool // records
	unshown bool // some are in their place, and their owner does not show them
	left    bool // some are not in their place, and could not be pushed
}

// spent says at the end of a source whether all that is kept of it is to go.
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
