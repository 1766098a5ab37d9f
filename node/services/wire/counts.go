package wire

import "github.com/apoidea/apoidea/dht/sizelimit"

// The lists of messages are counted before decoding, by the limits of Validate.
func init() {
	sizelimit.Table("apoidea.node", map[string]int{
		"Content.claim_digest": MaxQuestions, "Content.claim_url": MaxQuestions, "Content.confirm_digest": MaxQuestions,
		"Content.confirm_url": MaxQuestions, "Content.confirm_record": MaxQuestions, "Content.confirm_ms": MaxQuestions,
		"ContentReply.url": MaxQuestions, "ContentReply.record": MaxQuestions, "ContentReply.peer": MaxQuestions,
		"ContentReply.date_ms": MaxQuestions, "ContentReply.moved": MaxQuestions,
		"Proof.digest": MaxProofs, "Proof.url": MaxProofs, "ProofReply.proof": MaxProofs,
		"Records.key": MaxRecords, "Records.value": MaxRecords, "Records.note_pos": MaxNotes, "Records.note": MaxNotes,
		"PullReply.key": MaxRecords, "PullReply.value": MaxRecords,
		"Samples.peer": MaxSamplePeers, "Samples.host": MaxSamples, "Samples.site": MaxSamples, "Samples.asked": MaxSamples,
		"Samples.of": MaxSamples, "Samples.measured": MaxSamples, "Samples.by": MaxSamples * MaxSampleRTTs, "Samples.rtt_us": MaxSamples * MaxSampleRTTs, "Samples.worth_pct": MaxSamples,
		"Samples.hops": MaxSamples,
		"Subnets.name": MaxSubnets, "Subnets.held": MaxSubnets, "Subnets.record": MaxSubnets,
		"SubnetsReply.record": MaxSubnets, "SubnetsReply.moved": MaxSubnets,
		"Admission.host": MaxAdmissions,
	}, nil)
}
