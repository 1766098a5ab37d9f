package placer

import (
	"net/netip"

	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/geoip"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
)

// atlas provides the facts about addresses from configured files: --hierarchy networks and
// organizations, --geoip countries. Either may be missing.
type atlas struct {
	tree *ipmicra.Tree
	db   *geoip.DB
}

// newAtlas reads the files; nil if there are none.
func newAtlas(c *Config) (adaptive.Atlas, error) {
	if c.Hierarchy == "" && c.GeoIP == "" {
		return nil, nil //nolint:nilnil // no files are configured
	}
	var a atlas
	var err error
	if c.Hierarchy != "" {
		if a.tree, err = loadTree(c.Hierarchy); err != nil {
			return nil, err
		}
	}
	if c.GeoIP != "" {
		if a.db, err = geoip.Open(c.GeoIP); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Facts implements adaptive.Atlas.
func (a atlas) Facts(addr netip.Addr) (f adaptive.Facts) {
	if a.tree != nil {
		if at, ok := a.tree.Locate(addr); ok && a.tree.Contains(at.Subnet) {
			f.Network, f.Org = at.Subnet, at.Organisation
		}
	}
	if a.db != nil {
		f.Country = a.db.Country(addr)
	}
	return f
}
