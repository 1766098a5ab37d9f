package settings

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"github.com/apoidea/apoidea/node"
)

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

// isSwitch reports whether it is on or off, without prefixes.
func (a *allowed) isSwitch() bool { return a.config.AllowPrivate || len(a.config.AllowPrefixes) == 0 }

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
