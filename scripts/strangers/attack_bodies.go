package main

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackBodies says of the pages of the web that it has archived them, at a URL that goes before
// all others. If it is believed, those who fetch them keep a reference to it, and no page.
var attackBodies = attack{
	name: "bodies", does: "pages that nobody has fetched yet are said to be archived",
	make: func(ctx context.Context, t *target) error {
		web := webgen.New(webConfig(t.pages))
		site := web.Handler()
		lies := &wire.Content{}
		for _, url := range web.Truth(webgen.Walk{Port: t.port, MaxDepth: -1}).URLs {
			if len(lies.GetConfirmUrl()) == wire.MaxQuestions {
				break
			}
			answer := httptest.NewRecorder()
			site.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil))
			digest, record := sha256.Sum256(answer.Body.Bytes()), uuid.New()
			lies.ConfirmDigest = append(lies.ConfirmDigest, digest[:])
			lies.ConfirmUrl = append(lies.ConfirmUrl, []byte("http://a.example/"))
			lies.ConfirmRecord = append(lies.ConfirmRecord, record[:])
			lies.ConfirmMs = append(lies.ConfirmMs, time.Now().UnixMilli())
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			for ctx.Err() == nil {
				s.tell(ctx, crawling.ServiceContent, "", lies)
				_ = harness.Sleep(ctx, 100*time.Millisecond)
			}
		})
	},
}
