package main

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attackSipped asks for a megabyte of the archive many times over, and reads a byte now and then.
var attackSipped = attack{
	name: "sipped", does: "answers of a megabyte each are asked for, and read by the byte",
	make: func(ctx context.Context, t *target) error {
		const atOnce = 64
		return t.crowd(ctx, identities, func(s *stranger) {
			var files []control.ArchiveFile
			raw, err := s.Call(ctx, s.of, "files", []byte("{}"))
			if err != nil || json.Unmarshal(raw, &files) != nil || len(files) == 0 {
				return
			}
			question, err := json.Marshal(map[string]any{"name": files[0].Name})
			if err != nil {
				return
			}
			s.streams(ctx, 2, serviceID("files"), func(st network.Stream) {
				frames := bytes.Repeat(request(1, question, 0), atOnce)
				if _, err := st.Write(frames); err != nil {
					return
				}
				for ctx.Err() == nil {
					if _, err := st.Read(make([]byte, 1)); err != nil {
						return
					}
					_ = harness.Sleep(ctx, 200*time.Millisecond)
				}
			})
		})
	},
}
