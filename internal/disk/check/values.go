package check

import (
	"fmt"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/sstable"
)

// values is what a check finds out about references to value tables.
type values struct {
	version *version.Version
	sums    map[uint64]uint64 // bytes by ID, of all undamaged tables
	own     map[uint64]uint64 // of the present table
	lookup  sstable.Lookup
}

func levelWords(level int) string {
	if level == version.ValuesLevel {
		return ""
	}
	return fmt.Sprintf("level %d, ", level)
}

// begin begins a table.
func (v *values) begin() { v.own = nil }

// reference checks that the value table has the key of an entry that refers to it. It does not read the value: the
// value table is checked too.
func (c *checker) reference(ikey, encoded []byte) error {
	if _, kind := base.SplitTrailer(base.Trailer(ikey)); kind != base.KindRef {
		return nil
	}
	v := &c.values
	ref, err := base.DecodeValueRef(encoded)
	if err == nil {
		err = c.Cache.HasValue(v.version, &v.lookup, base.UserKey(ikey), ref)
	}
	if err != nil {
		return err
	}
	if v.own == nil {
		v.own = map[uint64]uint64{}
	}
	v.own[ref.ID] += ref.Len
	return nil
}

// end compares what was found in a table with what the table says.
func (v *values) end(r *sstable.Reader) error {
	refs, err := r.Refs()
	if err != nil {
		return err
	}
	if len(refs) != len(v.own) {
		return errors.Newf("it says that it refers to %d value tables, and its entries refer to %d", len(refs), len(v.own))
	}
	for _, ref := range refs {
		if v.own[ref.ID] != ref.Bytes {
			return errors.Newf("it says that it refers to %d bytes of the values of ID %d, and its entries refer to %d", ref.Bytes, ref.ID, v.own[ref.ID])
		}
		v.sums[ref.ID] += ref.Bytes
	}
	return nil
}

// valueCounts compares what was found in all tables with what the MANIFEST counts, unless a table is damaged.
func (c *checker) valueCounts() {
	for f := range c.damaged {
		if !f.Values {
			return
		}
	}
	for _, t := range c.values.version.Values {
		if found := c.values.sums[t.ID]; found != t.Live {
			c.report.Faults = append(c.report.Faults, fmt.Sprintf("%s: tables refer to %d bytes of its values of ID %d, and the MANIFEST counts %d; Repair counts again",
				t.File.Name(), found, t.ID, t.Live))
		}
	}
}
