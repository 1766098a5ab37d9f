package crawling

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/apoidea/apoidea/storage/warc"
)

// TestFoundAfterACrash: of what lies in an archive that a crash left open those bodies are told of
// that were asked about, the last ones where there are very many.
func TestFoundAfterACrash(t *testing.T) {
	entry := func(body, status string) warc.Entry {
		sum := sha256.Sum256([]byte(body))
		return warc.Entry{URL: "http://a.example/" + body, Digest: "sha256:" + hex.EncodeToString(sum[:]), Status: status, RecordID: "urn:uuid:" + body, Date: time.Unix(5, 0)}
	}
	c := Crawl{deps: Deps{Bodies: NewBodies(BodiesDeps{})}}
	for _, e := range []warc.Entry{entry("page", "200"), entry("", "200"), entry("error", "404"), entry("partial", "206"), {Digest: "sha1:ABC", Status: "200"}} {
		c.found(e, warc.Ref{File: "a.warc.gz", Offset: 7})
	}
	if len(c.untold) != 2 || c.untold[0].URL != "http://a.example/page" || c.untold[0].Digest != sha256.Sum256([]byte("page")) || c.untold[1].URL != "http://a.example/partial" {
		t.Errorf("told of %+v", c.untold)
	}
	if fresh := c.deps.Bodies.take(); len(fresh) != 2 || fresh[0].digest != c.untold[0].Digest || fresh[0].at.Offset != 7 {
		t.Errorf("found %+v", fresh)
	}
	for i := range 5 * maxUntold {
		c.found(entry(fmt.Sprint(i), "200"), warc.Ref{})
	}
	if last := c.untold[len(c.untold)-1]; len(c.untold) < maxUntold || len(c.untold) > 2*maxUntold || last.RecordID != fmt.Sprint("urn:uuid:", 5*maxUntold-1) {
		t.Errorf("%d are remembered, the last is %s", len(c.untold), last.RecordID)
	}
}
