package hosts

import (
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestPackedPushIsRefused: records whose links are packed a thousandfold are refused before they
// are unpacked, and one that holds as much as a page may is not.
func TestPackedPushIsRefused(t *testing.T) {
	list := ondisk.Links{}
	for range 30_000 {
		list.Links = append(list.Links, ondisk.Link{URL: "http://a.example/" + strings.Repeat("a", 900)})
	}
	pos := ring.PosOf(ring.HostKey("a.example"))
	packed := list.Encode()
	for _, row := range []struct {
		name string
		key  func(i int) []byte
	}{
		{"outbox", func(i int) []byte { return ondisk.OutboxKey(pos, job.NewID(), uint64(i)) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				w := start(t, "self")
				host := ondisk.Host{Name: "a.example"}
				push := func(lists int) (err error) {
					p := handoff.Push{Records: []kv.Record{{Key: ondisk.HostKey(pos), Value: host.Encode()}}}
					for i := range lists {
						p.Records = append(p.Records, kv.Record{Key: row.key(i), Value: packed})
					}
					var merge func() (bool, error)
					if lerr := w.OnLoop(t.Context(), func() (through bool) {
						if merge == nil {
							merge, _ = w.Mover().Import(p)
						}
						through, err = merge()
						return through || err != nil
					}); lerr != nil {
						t.Fatal(lerr)
					}
					return err
				}
				if err := push(1); err != nil {
					t.Errorf("a page's links: %v", err)
				}
				if err := push(8); calls.CodeOf(err) != calls.CodeRefused {
					t.Errorf("8 lists of %d bytes, packed as %d: %v", ondisk.UnpackedLinks(packed), len(packed), err)
				}
			})
		})
	}
}
