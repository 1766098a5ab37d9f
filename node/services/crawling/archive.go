package crawling

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/storage/warc"
)

// DepthField is a field of a page's metadata: the number of links from a seed, for repair.
const DepthField = "depth"

// LinkCountsField is a field of a page's metadata: the numbers of its outlinks that are pages,
// requisites, sitemaps and links that were not followed, in this order.
const LinkCountsField = "outlinkCounts"

// archive adapts the WARC writer to the worker: it encodes on the caller's goroutine, and appends
// one record at a time.
type archive struct {
	encoder *warc.Encoder
	writer  *warc.Writer
	bodies  *Bodies
}

var _ pages.Archive = (*archive)(nil)

func openArchive(dir string, cfg warc.Config, bodies *Bodies) (*archive, error) {
	w, err := warc.Open(dir, cfg)
	if err != nil {
		return nil, err
	}
	return &archive{encoder: warc.NewEncoder(cfg.Compression), writer: w, bodies: bodies}, bodies.write(bodies.take())
}

// Save implements pages.Archive.
func (a *archive) Save(x *pages.Exchange) (recordID string, err error) {
	e := warc.Exchange{
		URL: x.URL, Date: x.Date, IP: x.IP, Protocol: x.Protocol, Request: x.RequestHead, ResponseHead: x.ResponseHead, Body: x.Body,
		PayloadDigest: x.Digest, Truncated: string(x.Truncated), Outlinks: x.Outlinks, NotModified: x.Change == pages.NotModified,
	}
	visit, before := "", ""
	if x.Visit > 0 {
		visit = strconv.FormatUint(uint64(x.Visit), 10)
	}
	if len(x.Before) > 0 {
		before = "sha256:" + hex.EncodeToString(x.Before)
	}
	for _, f := range [...]warc.Field{
		{Name: "via", Value: x.Via},
		{Name: "hopsFromSeed", Value: x.HopPath},
		{Name: "seed", Value: x.Seed},
		{Name: "job", Value: x.Job.String()},
		{Name: "outcome", Value: x.Outcome},
		{Name: DepthField, Value: strconv.FormatUint(uint64(x.Depth), 10)},
		{Name: "fetchTimeMs", Value: strconv.FormatInt(x.Duration.Milliseconds(), 10)},
		{Name: "visit", Value: visit},
		{Name: "change", Value: string(x.Change)},
		{Name: "before", Value: before},
	} {
		if f.Value != "" && !strings.ContainsFunc(f.Value, unicode.IsControl) { // what an owner sent may be anything
			e.Fields = append(e.Fields, f)
		}
	}
	if len(x.Outlinks) > 0 {
		e.Fields = append(e.Fields, warc.Field{Name: LinkCountsField, Value: x.Links.String()})
	}
	if x.RevisitOf != nil {
		e.RevisitOf = &warc.Original{URL: x.RevisitOf.URL, Date: x.RevisitOf.Date}
		if id, err := warc.ParseID(x.RevisitOf.RecordID); err == nil {
			e.RevisitOf.RecordID = id
		}
	}
	members, err := a.encoder.Exchange(&e)
	if errors.Is(err, warc.ErrExchange) {
		return "", fmt.Errorf("%w: %w", pages.ErrUnarchivable, err)
	}
	if err != nil {
		return "", fmt.Errorf("archive %s: %w", x.URL, err)
	}
	defer a.encoder.Recycle(members)
	ref, err := a.writer.Append(members)
	if err != nil {
		return "", fmt.Errorf("archive %s: %w", x.URL, err)
	}
	if x.RevisitOf == nil && x.Truncated == "" && len(x.Body) > 0 {
		a.bodies.add(x.Digest, ref)
	}
	return ref.RecordID.String(), nil
}

// receipt archives the receipt of an owner, if its signature is valid.
func (c *Crawl) receipt(owner string, lines, signature []byte) error {
	if !c.deps.Signed(peer.ID(owner), wire.SignedReceipt(string(c.deps.Self), lines), signature) {
		c.deps.Log.Debug("receipt with an invalid signature", "owner", peer.ID(owner))
		return nil
	}
	fields := []warc.Field{{Name: "receiptOwner", Value: peer.ID(owner).String()}, {Name: "receiptWorker", Value: c.deps.Self.String()}, {Name: "receiptSignature", Value: hex.EncodeToString(signature)}}
	for line := range strings.Lines(string(lines)) {
		fields = append(fields, warc.Field{Name: "receiptPage", Value: strings.TrimSuffix(line, "\n")})
	}
	_, err := c.archive.writer.Append(c.archive.encoder.Metadata(time.Now(), fields))
	return err
}

// Sync implements pages.Archive.
func (a *archive) Sync() error {
	saved := a.bodies.take()
	return errors.Join(a.writer.Sync(), a.bodies.write(saved))
}

// ParseHead parses the HTTP head of an archived response as far as possible. Target is the
// canonical target of a redirect of the URL, "" for other responses.
func ParseHead(url string, raw []byte) (status int, header textproto.MIMEHeader, target string) {
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(raw)))
	line, _ := r.ReadLine()
	if fields := strings.Fields(line); len(fields) > 1 {
		status, _ = strconv.Atoi(fields[1])
	}
	header, _ = r.ReadMIMEHeader()
	if location := header.Get("Location"); location != "" && status >= 300 && status <= 399 && status != http.StatusNotModified {
		target = Target(url, location)
	}
	return status, header, target
}

// Target returns the canonical target of a redirect of the URL by its Location; "" if it is
// invalid.
func Target(url, location string) string {
	base, err := link.NewBase(url)
	if err != nil {
		return ""
	}
	canonical, _ := base.AppendResolve(nil, []byte(link.EscapeInvalid(location)))
	return string(canonical)
}
