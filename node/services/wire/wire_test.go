package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
)

func bytesOf(n int) []byte { return make([]byte, n) }

func many(n, size int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = bytesOf(size)
	}
	return list
}

// gossip is the message of a coordinate with one of its numbers, counted from 0, replaced.
func gossip(number int, by float32) *Coordinate {
	m := NewCoordinate(&coordinates.Coordinate{Vec: [coordinates.Dimensions]float64{1, -2, 3, -4}, Height: 5, Error: 0.5, Queue: 7})
	binary.BigEndian.PutUint32(m.At[2+4*number:], math.Float32bits(by))
	return m
}

// samplesOf are two, of two peers.
func samplesOf(change func(*Samples)) *Samples {
	m, _ := NewSamples([]adaptive.Sample{
		{Host: "a.example", Site: netip.MustParseAddr("192.0.2.1"), RTTs: []adaptive.PeerRTT{{Peer: "p", RTT: 7 * time.Millisecond}, {Peer: "q", RTT: 20 * time.Millisecond}}, Whole: true, Asked: 2, Of: 2},
		{Host: "b.example", Of: 2},
	})
	if change != nil {
		change(m)
	}
	return m
}

// TestSamplesComeBack: what is told is what is learnt, as far as it fits.
func TestSamplesComeBack(t *testing.T) {
	var list []adaptive.Sample
	for i := range 2 * MaxSamples {
		l := adaptive.Sample{Host: fmt.Sprintf("h%d.example", i), Whole: i%2 == 0, Asked: i % 5, Of: 12}
		if i%3 > 0 {
			l.Site = netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		}
		for k := range i % 5 {
			l.RTTs = append(l.RTTs, adaptive.PeerRTT{Peer: fmt.Sprintf("peer%02d", (i+k)%40), RTT: time.Duration(1+i*k) * time.Microsecond})
		}
		list = append(list, l)
	}
	for name, tt := range map[string]struct {
		list []adaptive.Sample
		n    int
	}{
		"none":          {nil, 0},
		"one":           {list[:1], 1},
		"more than fit": {list, MaxSamples},
	} {
		m, n := NewSamples(tt.list)
		if err := m.Validate(); err != nil || n != tt.n {
			t.Errorf("%s: %d told, want %d (%v)", name, n, tt.n, err)
		} else if got := m.List(); !reflect.DeepEqual(got, append([]adaptive.Sample{}, tt.list[:n]...)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	var crowd []adaptive.Sample
	for i := range 10 {
		l := adaptive.Sample{Host: "h"}
		for k := range 80 {
			l.RTTs = append(l.RTTs, adaptive.PeerRTT{Peer: fmt.Sprint(i, " ", k), RTT: time.Hour})
		}
		crowd = append(crowd, l)
	}
	if m, n := NewSamples(crowd); n != MaxSamplePeers/MaxSampleRTTs || m.Validate() != nil || len(m.GetBy()) != MaxSamplePeers {
		t.Errorf("of a crowd %d samples with %d round trips (%v)", n, len(m.GetBy()), m.Validate())
	}
}

func TestValidate(t *testing.T) {
	reply := func(n int, change func(*ContentReply)) *ContentReply {
		m := &ContentReply{Verdict: bytesOf(n), Url: many(n, 5), Record: many(n, 16), Peer: many(n, 38), DateMs: make([]int64, n)}
		if change != nil {
			change(m)
		}
		return m
	}
	for _, row := range []struct {
		name string
		err  error
		says string // empty: valid
	}{
		{"no question", (&Content{}).Validate(), ""},
		{"a claim", (&Content{ClaimDigest: many(1, 32), ClaimUrl: many(1, 9)}).Validate(), ""},
		{"as many claims as may be", (&Content{ClaimDigest: many(MaxQuestions, 32), ClaimUrl: many(MaxQuestions, 1)}).Validate(), ""},
		{"too many claims", (&Content{ClaimDigest: many(MaxQuestions+1, 32), ClaimUrl: many(MaxQuestions+1, 1)}).Validate(), "1025"},
		{"too many confirmations", (&Content{ConfirmDigest: many(MaxQuestions+1, 32)}).Validate(), "1025"},
		{"a claim without URL", (&Content{ClaimDigest: many(1, 32)}).Validate(), "lengths"},
		{"an empty URL", (&Content{ClaimDigest: many(1, 32), ClaimUrl: many(1, 0)}).Validate(), "URL of 0 bytes"},
		{"a URL too long", (&Content{ClaimDigest: many(1, 32), ClaimUrl: many(1, MaxURL+1)}).Validate(), "URL"},
		{"a digest too short", (&Content{ClaimDigest: many(1, 31), ClaimUrl: many(1, 9)}).Validate(), "digest"},
		{"a confirmation", (&Content{ConfirmDigest: many(1, 32), ConfirmUrl: many(1, 9), ConfirmRecord: many(1, 16), ConfirmMs: []int64{1}}).Validate(), ""},
		{"a confirmation without date", (&Content{ConfirmDigest: many(1, 32), ConfirmUrl: many(1, 9), ConfirmRecord: many(1, 16)}).Validate(), "lengths"},
		{"a record of another size", (&Content{ConfirmDigest: many(1, 32), ConfirmUrl: many(1, 9), ConfirmRecord: many(1, 17), ConfirmMs: []int64{1}}).Validate(), "record"},

		{"a proof", (&Proof{Key: bytesOf(32), Digest: many(MaxProofs, 32), Url: many(MaxProofs, 9)}).Validate(), ""},
		{"a proof of nothing", (&Proof{Key: bytesOf(32)}).Validate(), "0 bodies"},
		{"too many proofs", (&Proof{Key: bytesOf(32), Digest: many(MaxProofs+1, 32), Url: many(MaxProofs+1, 9)}).Validate(), "65 bodies"},
		{"a short key", (&Proof{Key: bytesOf(31), Digest: many(1, 32), Url: many(1, 9)}).Validate(), "31 bytes"},
		{"a proof without URL", (&Proof{Key: bytesOf(32), Digest: many(1, 32)}).Validate(), "lengths"},
		{"proof of a short digest", (&Proof{Key: bytesOf(32), Digest: many(1, 31), Url: many(1, 9)}).Validate(), "digest"},
		{"proofs", (&ProofReply{Proof: [][]byte{bytesOf(32), nil}}).Validate(2), ""},
		{"fewer proofs", (&ProofReply{Proof: many(1, 32)}).Validate(2), "lengths"},
		{"a long proof", (&ProofReply{Proof: many(1, 33)}).Validate(1), "proof"},

		{"answers", reply(3, nil).Validate(3), ""},
		{"answers of unknown bodies", reply(2, func(m *ContentReply) { m.Url, m.Record, m.Peer = many(2, 0), many(2, 0), many(2, 0) }).Validate(2), ""},
		{"fewer answers", reply(2, nil).Validate(3), "lengths"},
		{"more answers", reply(4, nil).Validate(3), "lengths"},
		{"a column too short", reply(3, func(m *ContentReply) { m.DateMs = m.DateMs[1:] }).Validate(3), "lengths"},
		{"moved", reply(3, func(m *ContentReply) { m.Moved = []uint32{0, 2} }).Validate(3), ""},
		{"moved out of bounds", reply(3, func(m *ContentReply) { m.Moved = []uint32{3} }).Validate(3), "index 3"},
		{"moved far out of bounds", reply(3, func(m *ContentReply) { m.Moved = []uint32{1<<32 - 1} }).Validate(3), "index"},
		{"a peer too long", reply(1, func(m *ContentReply) { m.Peer = many(1, MaxPeerID+1) }).Validate(1), "peer"},

		{"a coordinate", gossip(0, 1).Validate(), ""},
		{"no coordinate", (&Coordinate{}).Validate(), "0 bytes"},
		{"a coordinate and more", (&Coordinate{At: append(gossip(0, 1).At, 0)}).Validate(), "bytes"},
		{"another version", (&Coordinate{At: bytesOf(coordinates.EncodedSize)}).Validate(), "version 0"},
		{"a number that is none", gossip(1, float32(math.NaN())).Validate(), "vector NaN"},
		{"a place without end", gossip(0, float32(math.Inf(-1))).Validate(), "vector -Inf"},
		{"a place out of bounds", gossip(2, coordinates.MaxMillis+1).Validate(), "vector"},
		{"a negative height", gossip(coordinates.Dimensions, -1).Validate(), "height -1"},
		{"an error beyond bounds", gossip(coordinates.Dimensions+1, 2).Validate(), "error 2"},
		{"an endless queue", gossip(coordinates.Dimensions+2, float32(math.Inf(1))).Validate(), "queue +Inf"},

		{"no samples", (&Samples{Version: SamplesVersion}).Validate(), ""},
		{"samples", samplesOf(nil).Validate(), ""},
		{"samples of another version", samplesOf(func(m *Samples) { m.Version = 2 }).Validate(), "version"},
		{"too many samples", (&Samples{Version: SamplesVersion, Host: many(MaxSamples+1, 3)}).Validate(), "256"},
		{"samples of too many peers", samplesOf(func(m *Samples) { m.Peer = many(MaxSamplePeers+1, 3) }).Validate(), "peers"},
		{"a sample without a host", samplesOf(func(m *Samples) { m.Host[1] = nil }).Validate(), "host of a sample of 0 bytes"},
		{"a sample of a host too long", samplesOf(func(m *Samples) { m.Host[1] = bytesOf(300) }).Validate(), "host of a sample"},
		{"a sample of half an address", samplesOf(func(m *Samples) { m.Site[0] = bytesOf(8) }).Validate(), "address of 8 bytes"},
		{"a sample that is more than whole", samplesOf(func(m *Samples) { m.Whole[0] = 2 }).Validate(), "whole is 2"},
		{"a column of samples too short", samplesOf(func(m *Samples) { m.Asked = m.Asked[:1] }).Validate(), "lengths"},
		{"a round trip by nobody", samplesOf(func(m *Samples) { m.By[0] = 2 }).Validate(), "peer 2 of 2"},
		{"fewer round trips than announced", samplesOf(func(m *Samples) { m.Measured[0] = 3 }).Validate(), "announced"},
		{"more round trips than a sample has", samplesOf(func(m *Samples) { m.Measured[0] = 1 << 31 }).Validate(), "of one host"},
		{"a round trip of no length", samplesOf(func(m *Samples) { m.RttUs = m.RttUs[:1] }).Validate(), "lengths"},

		{"a question", (&Records{Ask: make([]byte, KeySize)}).Validate(), ""},
		{"a question about half a key", (&Records{Ask: make([]byte, PosSize)}).Validate(), "16"},
		{"records", (&Records{Key: many(3, 40), Value: many(3, 1)}).Validate(), ""},
		{"records with a note", (&Records{Key: many(3, 40), Value: many(3, 1), NotePos: many(1, PosSize), Note: many(1, 9)}).Validate(), ""},
		{"no records", (&Records{}).Validate(), "lengths"},
		{"no such space", (&Records{Space: 256, Key: many(1, 40), Value: many(1, 1)}).Validate(), "space 256"},
		{"a peer too long", (&Records{From: many(1, MaxPeerID+1)[0], Key: many(1, 40), Value: many(1, 1)}).Validate(), "peer of"},
		{"a key without value", (&Records{Key: many(1, 40)}).Validate(), "lengths"},
		{"an empty value", (&Records{Key: many(1, 40), Value: many(1, 0)}).Validate(), "value of 0 bytes"},
		{"a key too short", (&Records{Key: many(1, PosSize-1), Value: many(1, 1)}).Validate(), "key of"},
		{"a key too long", (&Records{Key: many(1, MaxKey+1), Value: many(1, 1)}).Validate(), "key of"},
		{"too many records", (&Records{Key: many(MaxRecords+1, 16), Value: many(MaxRecords+1, 1)}).Validate(), "lengths"},
		{"a note without position", (&Records{Key: many(1, 40), Value: many(1, 1), Note: many(1, 1)}).Validate(), "lengths"},
		{"a note at half a position", (&Records{Key: many(1, 40), Value: many(1, 1), NotePos: many(1, 8), Note: many(1, 1)}).Validate(), "position of a note"},

		{"is a peer there", (&Subnets{}).Validate(), ""},
		{"asked for the root", (&Subnets{Kind: bytesOf(1), Name: many(1, 0), Held: make([]uint64, 1)}).Validate(), ""},
		{"as many as may be asked for", (&Subnets{Kind: bytesOf(MaxSubnets), Name: many(MaxSubnets, 5), Held: make([]uint64, MaxSubnets)}).Validate(), ""},
		{"too many asked for", (&Subnets{Kind: bytesOf(MaxSubnets + 1), Name: many(MaxSubnets+1, 5), Held: make([]uint64, MaxSubnets+1)}).Validate(), "257"},
		{"too many brought", (&Subnets{Record: many(MaxSubnets+1, 5)}).Validate(), "257"},
		{"asked for without a name", (&Subnets{Kind: bytesOf(1), Held: make([]uint64, 1)}).Validate(), "lengths"},
		{"asked for without what is held", (&Subnets{Kind: bytesOf(1), Name: many(1, 5)}).Validate(), "lengths"},
		{"a name too long", (&Subnets{Kind: bytesOf(1), Name: many(1, MaxSubnetName+1), Held: make([]uint64, 1)}).Validate(), "name of a subnet"},
		{"an empty record", (&Subnets{Record: many(1, 0)}).Validate(), "record of a subnet"},
		{"a record too long", (&Subnets{Record: many(1, MaxSubnetRecord+1)}).Validate(), "record of a subnet"},
		{"subnets", (&SubnetsReply{State: []byte{0, 1}, Record: [][]byte{nil, {1}}, Moved: []uint32{0}}).Validate(2, 1), ""},
		{"fewer subnets", (&SubnetsReply{State: bytesOf(1), Record: many(1, 0)}).Validate(2, 0), "lengths"},
		{"a subnet without a state", (&SubnetsReply{Record: many(1, 0)}).Validate(1, 0), "lengths"},
		{"a subnet that is here and is not", (&SubnetsReply{State: []byte{1}, Record: many(1, 0)}).Validate(1, 0), "state 1"},
		{"a subnet that is not here and is", (&SubnetsReply{State: []byte{3}, Record: many(1, 4)}).Validate(1, 0), "state 3"},
		{"an unknown state", (&SubnetsReply{State: []byte{5}, Record: many(1, 0)}).Validate(1, 0), "state 5"},
		{"moved, of nothing brought", (&SubnetsReply{Moved: []uint32{0}}).Validate(0, 0), "index 0"},
		{"an answer too long", (&SubnetsReply{State: []byte{1}, Record: many(1, MaxSubnetRecord+1)}).Validate(1, 0), "record of a subnet"},
	} {
		if valid := row.err == nil; valid != (row.says == "") || !valid && !strings.Contains(row.err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.name, row.err, row.says)
		}
	}
}

func seed(f *testing.F, messages ...proto.Message) {
	f.Add([]byte{})
	for _, m := range messages {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

// FuzzContent: what passes can be read as its handler does.
func FuzzContent(f *testing.F) {
	seed(f, &Content{ClaimDigest: many(2, 32), ClaimUrl: many(2, 9)}, &Content{ConfirmDigest: many(1, 32), ConfirmUrl: many(1, 9), ConfirmRecord: many(1, 16), ConfirmMs: []int64{1}})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		m := new(Content)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		for i := range m.GetClaimDigest() {
			_, _ = [32]byte(m.GetClaimDigest()[i]), m.GetClaimUrl()[i]
		}
		for i := range m.GetConfirmDigest() {
			_, _, _, _ = [32]byte(m.GetConfirmDigest()[i]), m.GetConfirmUrl()[i], [16]byte(m.GetConfirmRecord()[i]), m.GetConfirmMs()[i]
		}
	})
}

// FuzzContentReply: what passes has an answer for each claim.
func FuzzContentReply(f *testing.F) {
	seed(f, &ContentReply{Verdict: bytesOf(2), Url: many(2, 5), Record: many(2, 16), Peer: many(2, 38), DateMs: make([]int64, 2), Moved: []uint32{1}})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		m := new(ContentReply)
		if proto.Unmarshal(raw, m) != nil || m.Validate(2) != nil {
			return
		}
		for i := range 2 {
			_, _, _, _, _ = m.GetVerdict()[i], m.GetUrl()[i], m.GetRecord()[i], m.GetPeer()[i], m.GetDateMs()[i]
		}
		for _, i := range m.GetMoved() {
			_ = m.GetVerdict()[i]
		}
	})
}

// FuzzProof: what passes can be read as its handler does, and who asked.
func FuzzProof(f *testing.F) {
	seed(f, &Proof{Key: bytesOf(32), Digest: many(2, 32), Url: many(2, 9)}, &ProofReply{Proof: many(2, 32)})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if m := new(Proof); proto.Unmarshal(raw, m) == nil && m.Validate() == nil {
			for i := range m.GetDigest() {
				_, _ = [32]byte(m.GetDigest()[i]), m.GetUrl()[i]
			}
		}
		if m := new(ProofReply); proto.Unmarshal(raw, m) == nil && m.Validate(2) == nil {
			_, _ = m.GetProof()[0], m.GetProof()[1]
		}
	})
}

// FuzzRecords: what passes has a value of some bytes and a position for each key.
func FuzzRecords(f *testing.F) {
	seed(f, &Records{Space: 'h', Key: many(2, 40), Value: many(2, 3), NotePos: many(1, PosSize), Note: many(1, 3)})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		m := new(Records)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		for i := range m.GetKey() {
			_, _ = m.GetKey()[i][PosSize-1], m.GetValue()[i][0]
		}
	})
}

// FuzzCoordinate: what passes is a place from which all distances are finite and not negative, and
// tells itself again.
func FuzzCoordinate(f *testing.F) {
	seed(f, gossip(0, 1), gossip(3, float32(math.NaN())), gossip(coordinates.Dimensions+2, float32(math.Inf(1))), &Coordinate{At: bytesOf(3)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(Coordinate)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		at, err := m.Place()
		if cost := at.Cost(&coordinates.Coordinate{Height: 1}); err != nil || !(cost >= 0 && cost < math.MaxFloat32) {
			t.Errorf("%+v costs %v (%v)", at, cost, err)
		}
		if again, err := NewCoordinate(&at).Place(); err != nil || again != at {
			t.Errorf("%+v told again is %+v (%v)", at, again, err)
		}
	})
}

// FuzzSamples: what passes can be learnt, and tells itself again.
func FuzzSamples(f *testing.F) {
	seed(f, samplesOf(nil), &Samples{Version: SamplesVersion}, samplesOf(func(m *Samples) { m.By[1] = 9 }), samplesOf(func(m *Samples) { m.Measured[0], m.Measured[1] = 0, 2 }))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(Samples)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		list := m.List()
		again, n := NewSamples(list)
		if err := again.Validate(); err != nil || n > len(list) || n == 0 && len(list) > 0 {
			t.Errorf("%d of %d samples told again (%v)", n, len(list), err)
		}
		s := adaptive.New(0)
		for i := range list[:min(len(list), 8)] {
			s.Learn(time.Now(), &list[i])
		}
	})
}

// FuzzSubnets: what passes has a name and what is held for each record that is asked for.
func FuzzSubnets(f *testing.F) {
	seed(f, &Subnets{Kind: []byte{1, 2}, Name: [][]byte{{10, 0, 0, 0, 8}, nil}, Held: []uint64{0, 7}, Record: many(1, 9)})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		m := new(Subnets)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		for i := range m.GetKind() {
			_, _ = m.GetName()[i], m.GetHeld()[i]
		}
		for _, record := range m.GetRecord() {
			_ = record[0]
		}
	})
}

// FuzzSubnetsReply: what passes has an answer for each question.
func FuzzSubnetsReply(f *testing.F) {
	seed(f, &SubnetsReply{State: []byte{0, 1}, Record: [][]byte{nil, {1}}, Moved: []uint32{0}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(SubnetsReply)
		if proto.Unmarshal(raw, m) != nil || m.Validate(2, 1) != nil {
			return
		}
		for i := range 2 {
			if SubnetState(m.GetState()[i]) == SubnetHere && len(m.GetRecord()[i]) == 0 {
				t.Errorf("question %d has no answer", i)
			}
		}
		for _, i := range m.GetMoved() {
			if i > 0 {
				t.Errorf("record %d of one has moved", i)
			}
		}
	})
}
