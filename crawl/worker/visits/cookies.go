package visits

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// maxCookieBytes bounds the cookies that a host may set during a lease. The cookies of an answer
// that exceeds it replace all before.
const maxCookieBytes = 16 << 10

// cookies are those that a host has set during its lease (RFC 6265). The zero value has none.
type cookies struct {
	jar   *cookiejar.Jar
	bytes int
}

// of returns the cookies to send with a request for u.
func (c *cookies) of(u *url.URL) []*http.Cookie {
	if c.jar == nil {
		return nil
	}
	return c.jar.Cookies(u)
}

// store keeps the cookies of an answer to a request for u.
func (c *cookies) store(u *url.URL, header http.Header) {
	lines := header["Set-Cookie"]
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	if size == 0 || size > maxCookieBytes {
		return
	}
	if c.bytes += size; c.jar == nil || c.bytes > maxCookieBytes {
		c.jar, _ = cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // it never fails
		c.bytes = size
	}
	c.jar.SetCookies(u, (&http.Response{Header: header}).Cookies())
}

// CookieField is the Cookie field of the request for the visit's URL; empty without cookies.
func (v *Visit) CookieField() string {
	u, err := url.Parse(v.Item.URL)
	if err != nil || v.cfg.NoCookies {
		return ""
	}
	var fields []string
	for _, c := range v.host.cookies.of(u) {
		fields = append(fields, (&http.Cookie{Name: c.Name, Value: c.Value, Quoted: c.Quoted}).String())
	}
	return strings.Join(fields, "; ")
}

// StoreCookies keeps the cookies of the answer to a visit, whose request took that long. The result
// is not nil if the answer is a redirect that hides the page until its cookie is sent: then the URL
// is requested once more in place of following the redirect. That is so if the redirect set a
// cookie of a new name, or if it set one and leads back to the URL.
func (v *Visit) StoreCookies(resp *fetch.Response, took time.Duration) Result {
	u, err := url.Parse(v.Item.URL)
	if err != nil || v.cfg.NoCookies || len(resp.Header["Set-Cookie"]) == 0 {
		return nil
	}
	before := v.host.cookies.of(u)
	v.host.cookies.store(u, resp.Header)
	after := v.host.cookies.of(u)
	if resp.Status < 300 || resp.Status > 399 || resp.Location() == "" || v.Item.Repeated {
		return nil
	}
	isNew := func(c *http.Cookie) bool {
		return !slices.ContainsFunc(before, func(b *http.Cookie) bool { return b.Name == c.Name })
	}
	isChanged := func(c *http.Cookie) bool {
		return !slices.ContainsFunc(before, func(b *http.Cookie) bool { return b.Name == c.Name && b.Value == c.Value })
	}
	if !slices.ContainsFunc(after, isNew) && !(slices.ContainsFunc(after, isChanged) && leadsBack(v.Item.URL, resp.Location())) {
		return nil
	}
	v.Item.Repeated = true
	return again{took: took, addr: resp.Addr.Addr(), connect: resp.Connect}
}

// leadsBack reports whether a redirect of page leads to page itself, or to a URL that has page as
// the value of a query parameter.
func leadsBack(page, location string) bool {
	base, err := link.NewBase(page)
	if err != nil {
		return false
	}
	is := func(ref string) bool {
		target, err := base.AppendResolve(nil, []byte(ref))
		return err == nil && string(target) == page
	}
	if is(location) {
		return true
	}
	_, query, _ := strings.Cut(location, "?")
	for pair := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		if value, err := url.QueryUnescape(value); err == nil && value != "" && is(value) {
			return true
		}
	}
	return false
}
