package dht

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/wire"
)

func stabilizeRequest(sender *wire.Neighbours) *wire.Message {
	return wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: sender}})
}

func stabilizeResponse(sender *wire.Neighbours) *wire.Message {
	return wire.New(&wire.Message_StabilizeResponse{StabilizeResponse: &wire.StabilizeResponse{Sender: sender}})
}

func leaveRequest(sender *wire.Neighbours) *wire.Message {
	return wire.New(&wire.Message_LeaveRequest{LeaveRequest: &wire.LeaveRequest{Sender: sender}})
}

func leaveResponse() *wire.Message {
	return wire.New(&wire.Message_LeaveResponse{LeaveResponse: &wire.LeaveResponse{}})
}

func nextHopResponse(r *wire.NextHopResponse) *wire.Message {
	return wire.New(&wire.Message_NextHopResponse{NextHopResponse: r})
}

func entryRequest(sender Peer) *wire.Message {
	return wire.New(&wire.Message_EntryRequest{EntryRequest: &wire.EntryRequest{Sender: sender.Wire()}})
}

func entryResponse(r *wire.EntryResponse) *wire.Message {
	return wire.New(&wire.Message_EntryResponse{EntryResponse: r})
}

func pingRequest(target peer.ID) *wire.Message {
	return wire.New(&wire.Message_PingRequest{PingRequest: &wire.PingRequest{Target: []byte(target)}})
}

func pingResponse(reachable bool) *wire.Message {
	return wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: reachable}})
}

func attachRequest(sender Peer, leave bool) *wire.Message {
	return wire.New(&wire.Message_AttachRequest{AttachRequest: &wire.AttachRequest{Sender: sender.Wire(), Leave: leave}})
}

func attachResponse(accepted bool, peers []Peer) *wire.Message {
	return wire.New(&wire.Message_AttachResponse{AttachResponse: &wire.AttachResponse{Accepted: accepted, Peers: member.Wire(peers)}})
}

func refusal(reason wire.Reason, text string) *wire.Message {
	return wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: reason, Text: text}})
}
