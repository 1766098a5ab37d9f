package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/node"
	"github.com/apoidea/apoidea/node/ops/words"
)

// readConfig reads a file as flag values. An unknown key is an error with a suggestion.
func readConfig(cmd *cobra.Command, file string) (map[string][]string, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", ErrUsage, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("%w: config: %w", ErrUsage, err)
	}
	return parseConfig(file, raw, flagNames(cmd.Root()))
}

// parseConfig parses the text of a file with known keys.
func parseConfig(file string, raw []byte, known []string) (map[string][]string, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("%w: config %s: larger than %d bytes", ErrUsage, file, maxConfig)
	}
	var doc map[string]any
	err := toml.Unmarshal(raw, &doc)
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := at.Position()
		return nil, fmt.Errorf("%w: config %s: line %d, column %d: %w", ErrUsage, file, row, column, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: config %s: %w", ErrUsage, file, err)
	}
	table := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(doc)) { // so that the same file gives the same error
		value := doc[key]
		if _, ok := value.(map[string]any); ok {
			return nil, fmt.Errorf("%w: config %s: [%s] is a table; keys are flag names, without sections", ErrUsage, file, key)
		}
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("%w: config %s: unknown key %q%s", ErrUsage, file, key, words.Nearest(key, known))
		}
		table[key] = texts(value)
	}
	return table, nil
}

func texts(value any) []string {
	list, ok := value.([]any)
	if !ok {
		return []string{fmt.Sprint(value)}
	}
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.LocalFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		names = append(names, flagNames(sub)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Group is a group of flags in the help of run.
type Group struct {
	// Title is the heading.
	Title       string
	flags, rare string
}

// Flags returns the names shown by run --help, in order.
func (g *Group) Flags() []string { return strings.Fields(g.flags) }

// Rare returns the names shown by help settings only.
func (g *Group) Rare() []string { return strings.Fields(g.rare) }

// Groups has each flag of run once. The group may contain flags of every command.
var Groups = []Group{
	{"Most used:", "contact dns-seed bootstrap profile data-dir until-idle max-pages max-depth delay bandwidth", ""},
	{
		"Job:", "seeds sitemap scope include exclude max-bytes max-pages-per-host requisites trap-rules patience again refresh",
		"first wait no-sitemaps retries refresh-share jobs job-key",
	},
	{
		"Politeness and limits per site (apoidea help limits):", "proxy allow-private max-requests-per-host max-bytes-per-host",
		"header archive-headers cookies from optout-file optout-url optout-listen optout-proof fetch-from domain-delay ip-permits max-body page-hosts domain-hosts check-rate",
	},
	{
		"Resource limits (apoidea help limits):", "cpu-share memory disk-quota quota-month schedule only-when-idle pause-on-battery",
		"bandwidth-up fetchers disk-reserve quota-day outside pause-on-metered forget-limits",
	},
	{"Ring and connectivity (apoidea help seeds):", "name found mdns listen", "admission promote network dns-server reachability nat-traversal replicas lease-ttl"},
	{"Placement (apoidea help placement):", "placement", "probe geoip hierarchy"},
	{"Storage:", "archive", "archive-noindex duplicates seen"},
	{"Monitoring:", "dashboard", "dashboard-login metrics pprof api-remote"},
	{"Research:", "", "governor max-d holiday latency latency-row latency-peers refresh-day"},
}

// allowed is the value of --allow-private: a switch that permits all non-public addresses, or
// prefixes.
type allowed struct{ config *node.Config }

// plainPrefix masks a prefix and converts one of IPv4-mapped addresses to IPv4.
func plainPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

// Set implements pflag.Value: true, false, a prefix or an address.
func (a *allowed) Set(text string) error {
	if on, err := strconv.ParseBool(text); err == nil {
		if a.config.AllowPrivate = on; !on {
			a.config.AllowPrefixes = nil
		}
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if addr, aerr := netip.ParseAddr(text); err != nil && aerr == nil && addr.Zone() == "" {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return errors.New("must be true, false or an address prefix such as 10.0.0.0/8 or fd00::/8")
	}
	a.config.AllowPrefixes = append(a.config.AllowPrefixes, plainPrefix(prefix))
	return nil
}

// Type implements pflag.Value.
func (a *allowed) Type() string { return "prefix" }

// String implements pflag.Value.
func (a *allowed) String() string { return strings.Join(a.GetSlice(), " ") }

// Append implements pflag.SliceValue, so that files and the environment may name several.
func (a *allowed) Append(text string) error { return a.Set(text) }

// Replace implements pflag.SliceValue.
func (a *allowed) Replace(list []string) error {
	a.config.AllowPrivate, a.config.AllowPrefixes = false, nil
	for _, text := range list {
		if err := a.Set(text); err != nil {
			return err
		}
	}
	return nil
}

// GetSlice implements pflag.SliceValue.
func (a *allowed) GetSlice() []string {
	if a.config.AllowPrivate || len(a.config.AllowPrefixes) == 0 {
		return []string{strconv.FormatBool(a.config.AllowPrivate)}
	}
	list := make([]string, len(a.config.AllowPrefixes))
	for i, p := range a.config.AllowPrefixes {
		list[i] = p.String()
	}
	return list
}

// TakePrefixes removes the prefixes from the arguments after a bare --allow-private: pflag takes
// the value of a switch only after a =, and no seed has this form.
func (r *Peer) TakePrefixes(args []string) (rest []string) {
	if !r.Config.AllowPrivate {
		return args
	}
	for _, arg := range args {
		if prefix, err := netip.ParsePrefix(arg); err == nil {
			r.Config.AllowPrefixes = append(r.Config.AllowPrefixes, plainPrefix(prefix))
			r.Config.AllowPrivate = false
			continue
		}
		rest = append(rest, arg)
	}
	return rest
}
