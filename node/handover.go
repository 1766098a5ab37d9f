package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/wire"
	"github.com/apoidea/apoidea/storage"
)

// serviceHandover takes the records of hosts that came into this peer's arc.
const serviceHandover = "handover"

const (
	// handoverPart bounds the bytes of records in one message.
	handoverPart = 1 << 20
	// handoverAgain is the wait before hosts that could not be handed over are tried again.
	handoverAgain = 2 * time.Second
	// handoverTimeout bounds one part: the receiver answers when its disk has it.
	handoverTimeout = 20 * time.Second

	// hostRecords begins the keys of all records of hosts, before the host's position; see crawl/owner, keys.go.
	hostRecords = 'h'
)

// handover is what it takes to move hosts that this peer keeps and no longer answers for.
type handover struct {
	wake chan struct{}
	// space is where the owner keeps hosts; their records are read from there without holding up the owner.
	space *storage.Keyspace
}

// arcChanged has the hosts looked through. It does not block.
func (w *owners) arcChanged() {
	w.settling.poke()
	select {
	case w.handover.wake <- struct{}{}:
	default:
	}
}

// runHandover hands hosts that are outside of the arc to their owners, at the start and whenever the arc has changed, until ctx ends.
//
// The moment that a host's key is not this peer's any more, its owner answers `moved` and grants nothing; so the records stand still while they
// travel, and both sides may be interrupted at any point: the import merges, and only then are the records here removed. A lease that was granted
// here is waited out by the new owner, which sees it in the host's record.
func (w *owners) runHandover(ctx context.Context) error {
	w.arcChanged()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.handover.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		arc, ok := w.arc()
		left, err := w.handOver(ctx)
		if err != nil {
			return unlessStopping(err)
		}
		wait := time.Hour
		if left > 0 {
			wait = handoverAgain
		} else if ok {
			w.settling.handed.Store(&arc)
		}
		timer.Reset(wait)
	}
}

// handOver goes through the hosts once and says how many are still here that should not be.
func (w *owners) handOver(ctx context.Context) (left int, err error) {
	var after owner.Pos
	for {
		var hosts []owner.HostSummary
		if err := w.loop.look(ctx, func(o *owner.Owner) { hosts = o.HostsAfter(after, pageSize) }); err != nil {
			return left, err
		}
		for _, h := range hosts {
			after = owner.PosOf(h.Key)
			if w.serves(h.Key) {
				continue
			}
			to, ok := w.router.ring.Guess(h.Key)
			if !ok || to.ID == w.self {
				left++ // the ring is settling
				continue
			}
			if err := w.handHost(ctx, to.ID, h); err != nil {
				if ctx.Err() != nil {
					return left, ctx.Err()
				}
				w.log.Debug("host not handed over yet", "host", h.Host, "peer", to.ID, "err", err)
				left++
			}
		}
		if len(hosts) < pageSize {
			return left, nil
		}
	}
}

// handHost sends all records of a host and removes them here once the other side has them on disk.
func (w *owners) handHost(ctx context.Context, to peer.ID, h owner.HostSummary) error {
	var before, after owner.HostDetail
	if err := w.loop.do(ctx, func(o *owner.Owner) { before, _ = o.Host(h.Host) }); err != nil {
		return err
	}
	if err := w.sendHost(ctx, to, h); err != nil {
		return err
	}
	pos := owner.PosOf(h.Key)
	kept := false
	if err := w.loop.do(ctx, func(o *owner.Owner) {
		after, _ = o.Host(h.Host)
		if kept = w.serves(h.Key) || !sameBooks(before.Jobs, after.Jobs); kept {
			return
		}
		o.Remove(pos, nextPos(pos))
		w.taken.hosts()
	}); err != nil {
		return err
	}
	if kept {
		return errors.New("it changed, or came back, while it was handed over; two copies merge")
	}
	return nil
}

// sameBooks says whether no URL came to a host and none was done between two looks.
func sameBooks(a, b []owner.HostCounts) bool {
	return slices.EqualFunc(a, b, func(x, y owner.HostCounts) bool {
		return x.Job == y.Job && x.Accepted == y.Accepted && x.Done == y.Done
	})
}

// sendHost sends the records of a host as they stand at its beginning, part by part. They are read from the store beside the owner's loop, as
// one moment's view, however long the other side takes for a large host.
func (w *owners) sendHost(ctx context.Context, to peer.ID, h owner.HostSummary) error {
	pos := owner.PosOf(h.Key)
	prefix := append([]byte{hostRecords}, pos[:]...)
	part := &wire.HostRecords{Host: h.Host}
	size := 0
	var sent error
	err := w.handover.space.Scan(prefix, storage.PrefixEnd(prefix), func(key, value []byte) bool {
		if size > 0 && size+len(key)+len(value) > handoverPart || len(part.GetKey()) == wire.MaxRecords {
			if sent = w.sendRecords(ctx, to, part); sent != nil {
				return false
			}
			part, size = &wire.HostRecords{Host: h.Host}, 0
		}
		part.Key = append(part.Key, bytes.Clone(key))
		part.Value = append(part.Value, append([]byte{}, value...))
		size += len(key) + len(value)
		return true
	})
	if err != nil {
		return fmt.Errorf("records of host %s: %w", h.Host, err)
	}
	if sent != nil {
		return sent
	}
	part.Last = true
	return w.sendRecords(ctx, to, part)
}

func (w *owners) sendRecords(ctx context.Context, to peer.ID, m *wire.HostRecords) error {
	raw, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	_, err = w.router.send(ctx, to, serviceHandover, raw)
	return err
}

// nextPos is the position behind p; zero behind the last, which stands for the end of the circle.
func nextPos(p owner.Pos) owner.Pos {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			break
		}
	}
	return p
}

// handleRecords takes a part of a host's records from its earlier owner.
func (w *owners) handleRecords(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	if len(raw) == 1 {
		return nil, w.handleSettled(from, raw[0])
	}
	m := new(wire.HostRecords)
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, refuse("host records: %v", err)
	}
	if err := m.Validate(); err != nil {
		return nil, refuse("%v", err)
	}
	key := ring.HostKey(m.GetHost())
	if !w.serves(key) {
		return nil, w.router.moved(key)
	}
	kvs := make([]owner.KV, len(m.GetKey()))
	pos := owner.PosOf(key)
	for i := range kvs {
		kvs[i] = owner.KV{Key: m.GetKey()[i], Value: m.GetValue()[i]}
		if len(kvs[i].Key) < 1+len(pos) || owner.Pos(kvs[i].Key[1:]) != pos {
			return nil, refuse("host records: a key of another host")
		}
	}
	var err error
	if lerr := w.loop.do(ctx, func(o *owner.Owner) {
		err = o.Import(kvs)
		w.taken.hosts()
	}); lerr != nil {
		return nil, lerr
	}
	if err != nil {
		return nil, refuse("%v", err)
	}
	return proto.Marshal(&wire.HostRecordsReply{})
}
