package subnets

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/ring"
)

// headOf returns the prefix of a record's keys.
func headOf(k ipmicra.Key) []byte {
	pos := ring.PosOf(k.Ring())
	return append(pos[:], byte(k.Kind))
}

// entryKey returns the key of an entry of the index with the key prefix head. Keys are in the order
// of prefixes.
func entryKey(head []byte, p netip.Prefix) []byte {
	addr := p.Addr().AsSlice()
	key := append(bytes.Clone(head), byte(len(addr)))
	return append(append(key, addr...), byte(p.Bits()))
}

// Name identifies records within a kind: the address and bits of a range, empty for the root; or an
// organization.
func Name(k ipmicra.Key) []byte {
	switch {
	case k.Kind == ipmicra.KindOrganisation:
		return []byte(k.Organisation)
	case !k.Prefix.IsValid():
		return nil
	default:
		return append(k.Prefix.Addr().AsSlice(), byte(k.Prefix.Bits()))
	}
}

// ParseKey parses an untrusted key. The error is [ipmicra.ErrRecord].
func ParseKey(kind byte, name []byte) (ipmicra.Key, error) {
	k := ipmicra.Key{Kind: ipmicra.Kind(kind)}
	switch {
	case k.Kind == ipmicra.KindOrganisation && len(name) <= ipmicra.MaxOrganisation:
		k.Organisation = string(name)
		return k, nil
	case k.Kind == ipmicra.KindChildren && len(name) == 0:
		return k, nil
	case k.Kind == ipmicra.KindChildren || k.Kind == ipmicra.KindSubnet:
		if len(name) == 5 || len(name) == 17 {
			last := len(name) - 1
			addr, _ := netip.AddrFromSlice(name[:last])
			if k.Prefix = netip.PrefixFrom(addr, int(name[last])); k.Prefix.IsValid() && k.Prefix == k.Prefix.Masked() {
				return k, nil
			}
		}
	}
	return ipmicra.Key{}, fmt.Errorf("%w: key of kind %d, name %.40x", ipmicra.ErrRecord, kind, name)
}

// Parse decodes an untrusted record in its canonical encoding. The error is [ipmicra.ErrRecord].
func Parse(raw []byte) (k ipmicra.Key, c ipmicra.Changes, err error) {
	if len(raw) > 0 && ipmicra.Kind(raw[0]) == ipmicra.KindSubnet {
		s, err := ipmicra.ParseSubnet(raw)
		if err != nil {
			return k, c, err
		}
		return s.Key(), ipmicra.Changes{Subnets: []*ipmicra.Subnet{s}}, nil
	}
	x, err := ipmicra.ParseIndex(raw)
	if err != nil {
		return k, c, err
	}
	return x.Key, ipmicra.Changes{Indexes: []*ipmicra.Index{x}}, nil
}
