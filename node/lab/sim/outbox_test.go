package sim

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/hosts"
)

// linksTimeout is the timeout of one batch.
const linksTimeout = 10 * time.Second

// outbox sends the owner's outgoing links in the batches of a hosts.
type outbox struct {
	c    *crawlPeer
	box  *hosts.Mailbox
	next alarm
}

func newOutbox(c *crawlPeer) *outbox {
	box := hosts.NewMailbox(func(key ring.Key) string {
		p, _ := c.Guess(key)
		return string(p.ID)
	})
	b := &outbox{c: c, box: box}
	b.next = alarm{c: c, do: b.pump}
	return b
}

// collect takes links out of the owner.
func (b *outbox) collect() {
	for more := true; more && b.box.Room(); {
		links := b.c.owner.Outbox(hosts.TakeLinks)
		b.box.Put(b.c.world.Now(), links)
		b.pump()
		more = len(links) == hosts.TakeLinks
	}
}

// pump sends the batches that are due.
func (b *outbox) pump() {
	for {
		batch, ok := b.box.Next(b.c.world.Now())
		if !ok {
			break
		}
		b.leave(batch)
	}
	b.next.set(b.box.Wake())
}

// leave sends a batch, or looks up its owner: the links of one host have one owner.
func (b *outbox) leave(batch hosts.Batch) {
	if batch.To != "" {
		b.send(peer.ID(batch.To), batch.Links)
		return
	}
	byHost := make(map[string][]owner.OutLink)
	var hosts []string
	for _, l := range batch.Links {
		if byHost[l.Host] == nil {
			hosts = append(hosts, l.Host)
		}
		byHost[l.Host] = append(byHost[l.Host], l)
	}
	for _, host := range hosts {
		links := byHost[host]
		b.c.Lookup(links[0].Key, func(found dht.Lookup, err error) {
			if err != nil {
				b.back(0, links)
				return
			}
			b.send(found.Owner.ID, links)
		})
	}
}

// send sends a batch to one peer. It looks up owners that moved for the next attempt.
func (b *outbox) send(to peer.ID, links []owner.OutLink) {
	b.c.deliver(to, hosts.Message(links), func(r *wire.LinksReply, err error) {
		if err != nil {
			if to != b.c.Peer.ID {
				b.c.Lookup(links[0].Key, func(dht.Lookup, error) {})
			}
			b.back(0, links)
			return
		}
		taken, left, moved := hosts.Split(links, r)
		if moved != nil {
			b.c.Lookup(moved.Key, func(dht.Lookup, error) {})
		}
		if len(taken) > 0 {
			b.c.do(func(o *owner.Owner) { o.Sent(taken) }, b.collect)
		}
		b.back(len(taken), left)
	})
}

func (b *outbox) back(taken int, left []owner.OutLink) {
	b.box.Back(b.c.world.Now(), taken, left)
	b.pump()
}

// deliver sends a batch of links to a peer's owner.
func (c *crawlPeer) deliver(to peer.ID, m *wire.Links, done func(*wire.LinksReply, error)) {
	atOwner(c, to, Links, 1+proto.Size(m), linksTimeout, func(o *owner.Owner) *wire.LinksReply { return o.Links(m) }, done)
}
