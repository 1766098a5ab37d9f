package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

func TestPublic(t *testing.T) {
	public := []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.17.255.255",
		"198.20.0.0", "223.255.255.255", "169.253.255.255", "2606:4700::1111", "2001:200::1", "2a00:1450:4001::1", "::ffff:8.8.8.8",
		"64:ff9b::808:808", "2002:808:808::1",
	}
	blocked := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.255.255.254",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
		"64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::", "100::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1",
		"ff02::1", "2001::1", "2001:0:53aa:64c::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1", "fe80::1%eth0",
	}
	for _, s := range public {
		if !fetch.Public(netip.MustParseAddr(s)) {
			t.Errorf("%s is blocked", s)
		}
	}
	for _, s := range blocked {
		if fetch.Public(netip.MustParseAddr(s)) {
			t.Errorf("%s passes", s)
		}
	}
	if fetch.Public(netip.Addr{}) {
		t.Error("no address passes")
	}
}

// fixed resolves every name to the same addresses.
type fixed []netip.Addr

func (f fixed) Lookup(context.Context, string) ([]netip.Addr, error) { return f, nil }

// Whatever a name resolves to, nothing that the guard refuses is ever dialled.
func TestGuardBeforeDial(t *testing.T) {
	addr := netip.MustParseAddr
	tests := []struct {
		name   string
		url    string
		addrs  fixed
		dialed []string
	}{
		{"rebinding", "http://evil.example/", fixed{addr("127.0.0.1")}, nil},
		{"metadata", "http://evil.example/", fixed{addr("169.254.169.254")}, nil},
		{"mapped", "http://evil.example/", fixed{addr("::ffff:10.0.0.1")}, nil},
		{"literal", "http://127.0.0.1:8080/", fixed{addr("8.8.8.8")}, nil},
		{"literal of IPv6", "https://[::1]/", fixed{addr("8.8.8.8")}, nil},
		{"one of two", "http://mixed.example/", fixed{addr("10.0.0.1"), addr("8.8.8.8")}, []string{"8.8.8.8:80"}},
		{"all public", "https://good.example/", fixed{addr("8.8.8.8"), addr("2606:4700::1111")}, []string{"8.8.8.8:443", "[2606:4700::1111]:443"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var dialed []string
			f := newFetcher(t, func(c *fetch.Config) {
				c.AllowPrivate, c.Resolver = false, tt.addrs
				c.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
					dialed = append(dialed, address)
					return nil, errors.New("refused")
				}
			})
			_, err := f.Get(t.Context(), &fetch.Request{URL: tt.url})
			want := link.OutcomeConnect
			if tt.dialed == nil {
				want = link.OutcomeBlockedAddress
			}
			wantOutcome(t, err, want)
			if !slices.Equal(dialed, tt.dialed) {
				t.Errorf("dialled %v, want %v", dialed, tt.dialed)
			}
		})
	}
}

type noSuchHost struct{}

func (noSuchHost) Lookup(context.Context, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

func TestResolveFailure(t *testing.T) {
	f := newFetcher(t, func(c *fetch.Config) { c.Resolver = noSuchHost{} })
	_, err := f.Get(t.Context(), &fetch.Request{URL: "http://nowhere.example/"})
	wantOutcome(t, err, link.OutcomeDNS)
	f = newFetcher(t, func(c *fetch.Config) { c.Resolver = fixed{} })
	_, err = f.Get(t.Context(), &fetch.Request{URL: "http://nowhere.example/"})
	wantOutcome(t, err, link.OutcomeDNS)
}

// TestAllowedPrefixes: prefixes let through what is in them, by whatever IPv6 address it is
// written, and nothing beside; neither a probe nor a redirect's target, which is fetched as any
// other URL, gets further.
func TestAllowedPrefixes(t *testing.T) {
	var dialed []string
	f, err := fetch.New(fetch.Config{
		UserAgent: "test", Resolver: fixed{netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("127.0.0.1")},
		AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			return nil, errors.New("not here")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for url, want := range map[string]string{
		"http://name.example/":               "10.1.2.3:80",
		"http://10.1.255.255/":               "10.1.255.255:80",
		"http://[::ffff:10.1.0.1]/":          "10.1.0.1:80",
		"http://[64:ff9b::a01:1]/":           "[64:ff9b::a01:1]:80",
		"http://[2002:a01:1::]/":             "[2002:a01:1::]:80",
		"http://[fd00::7]/":                  "[fd00::7]:80",
		"http://10.0.255.255/":               "",
		"http://10.2.0.0/":                   "",
		"http://127.0.0.1/":                  "",
		"http://[::1]/":                      "",
		"http://[::ffff:127.0.0.1]/":         "",
		"http://[64:ff9b::7f00:1]/":          "",
		"http://[2002:7f00:1::]/":            "",
		"http://[fe80::1]/":                  "",
		"http://169.254.169.254/latest/meta": "",
	} {
		dialed = nil
		_, err := f.Get(t.Context(), &fetch.Request{URL: url})
		fe, ok := errors.AsType[*fetch.Error](err)
		if !ok || want == "" && (len(dialed) > 0 || fe.Outcome != link.OutcomeBlockedAddress) || want != "" && !slices.Equal(dialed, []string{want}) {
			t.Errorf("%s: dialled %q, want %q: %v", url, dialed, want, err)
		}
	}
	dialed = nil
	if _, _, err := f.Probe(t.Context(), "127.0.0.1:80", "http"); err == nil || len(dialed) > 0 {
		t.Errorf("a probe dialled %q: %v", dialed, err)
	}
}
