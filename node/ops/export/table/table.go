// Package table writes results as Parquet files, for DuckDB, Spark, pandas and the like. The table
// of URLs has the columns of Common Crawl's index (cc-index-table, in its order), then Apoidea's
// own.
package table

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/apoidea/apoidea/storage/warc"
)

// URL is a row of the table of URLs: a record of an archive, or a URL without one. Empty values are
// null. The columns up to warc_segment are those of Common Crawl; content_digest, which is SHA-1
// there, is always null.
type URL struct {
	SURT           string `parquet:"url_surtkey"`
	URL            string `parquet:"url"`
	Host           string `parquet:"url_host_name,dict"` // without port
	TLD            string `parquet:"url_host_tld,optional,dict"`
	Part2          string `parquet:"url_host_2nd_last_part,optional,dict"`
	Part3          string `parquet:"url_host_3rd_last_part,optional,dict"`
	Part4          string `parquet:"url_host_4th_last_part,optional,dict"`
	Part5          string `parquet:"url_host_5th_last_part,optional,dict"`
	RegistrySuffix string `parquet:"url_host_registry_suffix,optional,dict"`
	RegisteredName string `parquet:"url_host_registered_domain,optional,dict"`
	PrivateSuffix  string `parquet:"url_host_private_suffix,optional,dict"`
	PrivateDomain  string `parquet:"url_host_private_domain,optional,dict"`
	HostReversed   string `parquet:"url_host_name_reversed,dict"`
	Protocol       string `parquet:"url_protocol,dict"`
	Port           int32  `parquet:"url_port,optional"` // null: the default
	Path           string `parquet:"url_path"`
	Query          string `parquet:"url_query,optional"`
	Fetched        int64  `parquet:"fetch_time,optional,timestamp(millisecond)"` // null: never fetched
	Status         int16  `parquet:"fetch_status,optional"`
	Redirect       string `parquet:"fetch_redirect,optional"`
	SHA1           string `parquet:"content_digest,optional"`
	MIME           string `parquet:"content_mime_type,optional,dict"`
	MIMEDetected   string `parquet:"content_mime_detected,optional,dict"`
	Charset        string `parquet:"content_charset,optional,dict"`
	Languages      string `parquet:"content_languages,optional,dict"`
	Truncated      string `parquet:"content_truncated,optional,dict"`
	File           string `parquet:"warc_filename,optional,dict"`
	Offset         int32  `parquet:"warc_record_offset,optional"`
	Length         int32  `parquet:"warc_record_length,optional"`
	Segment        string `parquet:"warc_segment,optional,dict"`     // ID of the peer that has the file
	SHA256         string `parquet:"content_digest_sha256,optional"` // in hex
	Job            string `parquet:"job,optional,dict"`
	Peer           string `parquet:"peer,optional,dict"` // ID of the worker that fetched it
	Via            string `parquet:"via,optional"`
	HopPath        string `parquet:"hop_path,optional,dict"`
	Seed           string `parquet:"seed,optional,dict"`
	Depth          *int32 `parquet:"depth,optional"`
	Outcome        string `parquet:"outcome,optional,dict"`
	SimHash        int64  `parquet:"simhash,optional"`
	Visit          int32  `parquet:"visit,optional"`       // number of the visit after the first fetch
	Change         string `parquet:"change,optional,dict"` // that it found
	FetchMs        int32  `parquet:"fetch_ms,optional"`    // duration of the fetch
}

// Link is a row of the table of links: an edge of the web graph.
type Link struct {
	From     string `parquet:"from_url"`
	To       string `parquet:"to_url"`
	FromHost string `parquet:"from_host,dict"`
	ToHost   string `parquet:"to_host,dict"`
	Kind     string `parquet:"kind,dict"` // link or redirect
}

// Host is a row of the table of hosts: sums over the rows of a host in the table of URLs.
type Host struct {
	Host             string `parquet:"host"` // without port
	RegisteredDomain string `parquet:"registered_domain,optional,dict"`
	Job              string `parquet:"job,optional,dict"`
	URLs             int64  `parquet:"urls"`
	OK               int64  `parquet:"status_2xx"`
	Redirects        int64  `parquet:"status_3xx"`
	ClientErrors     int64  `parquet:"status_4xx"`
	ServerErrors     int64  `parquet:"status_5xx"`
	Unanswered       int64  `parquet:"without_status"`
	Bytes            int64  `parquet:"warc_bytes"` // of the response records, compressed
	First            int64  `parquet:"first_fetch,optional,timestamp(millisecond)"`
	Last             int64  `parquet:"last_fetch,optional,timestamp(millisecond)"`
}

// Add adds a row of the host.
func (h *Host) Add(u *URL) {
	one := Host{URLs: 1, Bytes: int64(u.Length), First: u.Fetched, Last: u.Fetched}
	classes := [...]*int64{&one.Unanswered, &one.Unanswered, &one.OK, &one.Redirects, &one.ClientErrors, &one.ServerErrors}
	*classes[min(max(u.Status/100, 0), 5)] = 1
	h.Merge(&one)
}

// Merge adds the sums of another part of the same host.
func (h *Host) Merge(o *Host) {
	h.URLs += o.URLs
	h.OK += o.OK
	h.Redirects += o.Redirects
	h.ClientErrors += o.ClientErrors
	h.ServerErrors += o.ServerErrors
	h.Unanswered += o.Unanswered
	h.Bytes += o.Bytes
	if h.First == 0 || o.First != 0 && o.First < h.First {
		h.First = o.First
	}
	h.Last = max(h.Last, o.Last)
}

// SetURL sets a canonical URL and the columns that follow from it, except for the SURT key. Those
// of the host are copied from the row before, if it has the same.
func (u *URL) SetURL(url string, before *URL) {
	u.URL = url
	scheme, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	u.Protocol = scheme
	u.Path, u.Query, _ = strings.Cut(path, "?")
	host, port := SplitHost(authority)
	u.Port = port
	if before != nil && before.Host == host {
		u.TLD, u.Part2, u.Part3, u.Part4, u.Part5 = before.TLD, before.Part2, before.Part3, before.Part4, before.Part5
		u.RegistrySuffix, u.RegisteredName, u.PrivateSuffix, u.PrivateDomain = before.RegistrySuffix, before.RegisteredName, before.PrivateSuffix, before.PrivateDomain
		u.Host, u.HostReversed = before.Host, before.HostReversed
		return
	}
	u.setHost(host)
}

// SplitHost splits the authority of a canonical URL; port 0 is the default.
func SplitHost(authority string) (host string, port int32) {
	i := strings.LastIndexByte(authority, ':')
	if i <= strings.LastIndexByte(authority, ']') {
		return authority, 0
	}
	n, err := strconv.ParseUint(authority[i+1:], 10, 16)
	if err != nil {
		return authority, 0
	}
	return authority[:i], int32(n) // 16 bits
}

func (u *URL) setHost(host string) {
	u.Host, u.HostReversed = host, host
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return // an address has no parts and no domain
	}
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	u.HostReversed = strings.Join(parts, ".")
	for i, part := range []*string{&u.TLD, &u.Part2, &u.Part3, &u.Part4, &u.Part5} {
		if i < len(parts) {
			*part = parts[i]
		}
	}
	suffix, registry := publicsuffix.PublicSuffix(host)
	u.PrivateSuffix, u.PrivateDomain = suffix, domainOf(host, suffix)
	for !registry && strings.Contains(suffix, ".") {
		_, suffix, _ = strings.Cut(suffix, ".")
		suffix, registry = publicsuffix.PublicSuffix(suffix)
	}
	u.RegistrySuffix, u.RegisteredName = suffix, domainOf(host, suffix)
}

// domainOf returns a suffix with one more label of a host; empty if the host has none.
func domainOf(host, suffix string) string {
	above, ok := strings.CutSuffix(host, "."+suffix)
	if !ok {
		return ""
	}
	return above[strings.LastIndexByte(above, '.')+1:] + "." + suffix
}

// SetIndexed sets the columns that a line of an index has.
func (u *URL) SetIndexed(l *warc.IndexLine, file, peer string) {
	status, _ := strconv.ParseInt(l.Status, 10, 16)
	u.Fetched, u.Status, u.MIME = l.Date.UnixMilli(), int16(status), l.MIME // three digits
	if l.Digest != warc.NoDigest {
		u.SHA256 = strings.TrimPrefix(l.Digest, "sha256:")
	}
	u.File, u.Segment, u.Peer = file, peer, peer
	u.Offset, u.Length = int32(l.Offset), int32(l.Length) // checked by the caller: files roll below 2 GiB
}

// subsets are the partitions, as Common Crawl names them; unarchived is ours.
var subsets = [...]string{"non200responses", "robotstxt", "unarchived", "warc"}

// Subset returns the partition of a row.
func (u *URL) Subset() string { return subsets[u.SubsetOrder()] }

// SubsetOrder returns the position of the partition in the order of their names.
func (u *URL) SubsetOrder() byte {
	switch {
	case u.File == "":
		return 2
	case strings.HasSuffix(u.URL, "/robots.txt") && strings.Count(u.URL, "/") == 3:
		return 1
	case u.Status >= 200 && u.Status <= 299:
		return 3
	default:
		return 0
	}
}
