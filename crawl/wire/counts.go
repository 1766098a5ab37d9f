package wire

import "github.com/apoidea/apoidea/dht/sizelimit"

// List lengths of messages are checked before decoding, by the limits of Validate. Entries of hosts
// and jobs may be small: such messages may decode to more than their encoded size.
func init() {
	sizelimit.Table("apoidea.crawl", map[string]int{
		"Links.job_ids": MaxJobs, "Links.url": MaxLinks, "Links.job": MaxLinks, "Links.depth": MaxLinks, "Links.sources": MaxLinks, "Links.source": MaxLinks,
		"LinksReply.moved": MaxLinks, "LinksReply.busy": MaxLinks,
		"Session.hosts": MaxHosts, "Session.held": MaxHeld,
		"HostWork.robots": MaxOrigins, "HostWork.fetched": MaxFetched, "HostWork.addrs": MaxAddrs, "HostWork.returned": MaxFetched,
		"Fetched.links": MaxPageLinks, "Fetched.changed": MaxChanged, "Fetched.changed_s": MaxChanged, "Again.url": MaxChanged,
		"SessionReply.grants": MaxHosts, "SessionReply.revoked": MaxHeld + MaxHosts, "SessionReply.moved": MaxHeld + MaxHosts,
		"SessionReply.refused": MaxHeld + MaxHosts, "SessionReply.not_renewed": MaxHeld + MaxHosts,
		"Grant.addrs": MaxAddrs, "Grant.job_ids": MaxJobs, "Grant.url": MaxGrant, "Grant.job": MaxGrant,
		"Grant.depth": MaxGrant, "Grant.max_bytes": MaxGrant, "Grant.sources": MaxGrant, "Grant.source": MaxGrant, "Grant.revisits": MaxGrant,
		"LeaseNote.job_ids": MaxJobs, "LeaseNote.job": MaxOut, "LeaseNote.hash": MaxOut,
		"Again.consents": MaxConsents, "Shares.job_ids": MaxJobs, "Shares.threshold": MaxJobs, "Shares.pages": MaxJobs,
		"Offer.hosts": MaxHosts, "OfferReply.declined": MaxHosts,
		"JobSpec.seeds": MaxSeeds, "JobSpec.scope": MaxScope, "JobSpec.include": MaxFilters, "JobSpec.exclude": MaxFilters, "JobSpec.first": MaxFilters,
		"JobSpec.host_depths": MaxFilters, "Job.accounts": MaxAccounts, "Draw.host": MaxDrawHosts,
		"JobRequest.ask": MaxAsk, "JobReply.jobs": MaxJobList, "JobReply.standings": MaxAsk,
	}, map[string]int{"Session": 1 << 20, "SessionReply": 2 << 20, "JobRequest": 1 << 20, "JobReply": 2 << 20})
}
