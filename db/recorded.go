package db

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/disk/foreign"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Recorded is what a database has recorded about the options that it was opened with; see RecordedOptions.
type Recorded struct {
	// Options open the database as it was last opened for writing, and have KeepRecord set. What is not recorded,
	// such as the size of the cache, is as in the options that RecordedOptions got.
	Options Options
	// List has the recorded options in words. Defaults are missing, and so are the prefixes of values that expire.
	List []report.RecordedOption
	// Missing has those that Options lack, because the program does not have them: a comparer, a filter policy or a
	// range policy of another program, or an option of a later version. A program that opens the database for writing
	// without them makes tables of another kind, which the owner of the database did not ask for.
	Missing []report.RecordedOption
	// Comparer is the name of the comparer.
	Comparer string
	// ExpiryPrefixes are those under which values expire. They hold whatever Options.Expiry says.
	ExpiryPrefixes [][]byte
	// LogDir is the directory of the logs, or empty if they are in that of the database. Open finds it by itself.
	LogDir string
}

// RecordedOptions returns the options that the database in dir has recorded: those of the last opening for writing, or
// of SetOptions, that decide what its files look like, or what it keeps:
//
//   - Filters
//   - Tables
//   - Changes
//   - FileMode and Limits.DiskReserve
//
// It is for tools that open the database of another program, such as the command sievedb. A program that owns a
// database passes its own options to Open.
//
// o has what a database cannot record: the file system, and comparers and policies that are not those of SieveDB, which
// are used if the database has recorded their names. Everything that is recorded replaces what o has. nil means the
// defaults. RecordedOptions takes no lock and changes nothing; the database may be open. The errors are those of a
// read-only Open. If the MANIFEST is damaged, the error is ErrCorruption, and the result has what was recorded before
// the damage.
func RecordedOptions(dir string, o *Options) (*Recorded, error) {
	given := o.copied()
	if given.FS == nil {
		given.FS = vfs.NewOSForReading(vfs.DefaultFileMode)
	}
	full, _ := given.withDefaults()
	place := full.dirOptions()
	place.ReadOnly = true
	home, err := dbdir.Open(dir, place)
	if err == nil {
		_, err = home.Prepare()
	}
	if err != nil {
		return nil, err
	}
	kept, comparer, err := manifest.ReadRecorded(given.FS, home.Path, full.Limits.ManifestRead)
	if base.IsUnreadable(err) { // as in Open: the names of the files may not show the engine
		if ferr := foreign.RefuseDir(given.FS, home.Path, full.Limits.ManifestRead, false); errors.Is(ferr, ErrForeign) {
			return nil, ferr
		}
	}
	if err != nil && !errors.Is(err, ErrCorruption) {
		return nil, err
	}
	r := &Recorded{Comparer: base.PlainComparerName(comparer), ExpiryPrefixes: kept.Prefixes, LogDir: home.Logs.Dir()}
	r.Options = o.copied()
	r.Options.KeepRecord = true
	if r.Comparer != full.Comparer.Name && r.Comparer != "" {
		r.missing("Comparer", manifest.PlainName(r.Comparer))
	}
	recorded, unreadable := kept.Options()
	for _, option := range recorded.List() {
		r.List = append(r.List, report.RecordedOption{Option: option.Name, Value: option.Text})
	}
	r.setOptions(&recorded)
	if err := r.Options.Validate(); err != nil { // of a later version, or wrong under a right checksum
		given.FS, given.KeepRecord = r.Options.FS, true
		r.Options = given
		r.missing("all options", err.Error())
	}
	for _, u := range unreadable {
		if u.Name == "" {
			u.Name = "an option of a later version"
		}
		r.missing(u.Name, "a value that a later version wrote")
	}
	return r, err
}

func (r *Recorded) missing(option, value string) {
	r.Missing = append(r.Missing, report.RecordedOption{Option: option, Value: value})
}

// setOptions sets the options that are recorded.
func (r *Recorded) setOptions(recorded *manifest.Options) {
	o := &r.Options
	o.Changes = recordedRetention(recorded)
	o.Tables = TableOptions{
		Size: recorded.TableSize, BlockSize: int(recorded.BlockSize), RestartInterval: int(recorded.RestartInterval),
		Compression: fromRecorded(recorded.Compression), SeparateValues: int(recorded.SeparateValues),
	}
	for _, c := range recorded.LevelCompression {
		o.Tables.LevelCompression = append(o.Tables.LevelCompression, fromRecorded(c))
	}
	o.FileMode, o.Limits.DiskReserve = fs.FileMode(recorded.FileMode), recorded.DiskReserve
	given := o.Filters
	o.Filters = FilterOptions{
		Budget: recorded.FilterBudget, MaxWastedReads: recorded.MaxWastedReads, ForGoleveldb: recorded.ForGoleveldb,
	}
	o.Filters.Policy = r.policy(recorded.Filters, given.Policy)
	for _, named := range recorded.RangeFilters {
		if p := r.rangePolicy(named, given.RangePolicies); p != nil {
			o.Filters.RangePolicies = append(o.Filters.RangePolicies, p)
		}
	}
}

// policy returns the policy of the recorded names, nil for the default. It uses those of given if they are not known.
func (r *Recorded) policy(recorded []manifest.NamedFilter, given filter.Policy) filter.Policy {
	var policies []filter.Policy
	for _, named := range recorded {
		p, err := filter.PolicyNamed(named.Name, int(named.Bits))
		for _, own := range filter.Kinds(given) {
			if err != nil && own.Name() == named.Name {
				p, err = own, nil
			}
		}
		if err != nil {
			r.missing("Filters.Policy", manifest.PlainName(named.Name))
			continue
		}
		policies = append(policies, p)
	}
	switch {
	case len(policies) == 0:
		return nil
	case len(policies) == 2:
		if first, ok := policies[0].(filter.BloomPolicy); ok {
			both := filter.NewDualBloomPolicy(first.BitsPerKey())
			if kinds := filter.Kinds(both); kinds[0] == policies[0] && kinds[1] == policies[1] {
				return both
			}
		}
	}
	return filter.Several(policies...)
}

func (r *Recorded) rangePolicy(named manifest.NamedFilter, given []rangefilter.Policy) rangefilter.Policy {
	p, err := rangefilter.PolicyNamed(named.Name, int(named.Bits))
	if err == nil {
		return p
	}
	for _, own := range given {
		if own != nil && own.Name() == named.Name {
			return own
		}
	}
	r.missing("Filters.RangePolicies", manifest.PlainName(named.Name))
	return nil
}

// toRecord returns what a database records of o, which is as it was passed, with no default filled in.
func (o *Options) toRecord() *manifest.Options {
	r := &manifest.Options{
		Compression: o.Tables.Compression.recorded(), TableSize: o.Tables.Size, BlockSize: int64(o.Tables.BlockSize),
		RestartInterval: int64(o.Tables.RestartInterval), FilterBudget: o.Filters.Budget, MaxWastedReads: o.Filters.MaxWastedReads,
		ForGoleveldb: o.Filters.ForGoleveldb, FileMode: int64(o.FileMode), DiskReserve: o.Limits.DiskReserve,
		SeparateValues: int64(o.Tables.SeparateValues),
	}
	if o.Changes.Bytes >= 0 {
		r.ChangeBytes, r.ChangeAge = o.Changes.Bytes, int64(o.Changes.Age)
	}
	for _, c := range o.Tables.LevelCompression {
		r.LevelCompression = append(r.LevelCompression, c.recorded())
	}
	switch kinds := filter.Kinds(o.Filters.Policy); {
	case o.Filters.Policy == nil || o.Filters.Policy == defaultFilter:
	case len(kinds) == 0:
		r.Filters = []manifest.NamedFilter{{Name: manifest.NoFilters}}
	default:
		for _, p := range kinds {
			bits := 0
			switch p := p.(type) {
			case filter.BloomPolicy:
				bits = p.BitsPerKey()
			case filter.FusePolicy:
				if p != (filter.FusePolicy{}) { // 0 means its 8, as in databases of before there were others
					bits = p.SlotBits()
				}
			}
			r.Filters = append(r.Filters, manifest.NamedFilter{Name: p.Name(), Bits: uint32(bits)})
		}
	}
	for _, p := range o.Filters.RangePolicies {
		bits := 0
		switch p := p.(type) {
		case rangefilter.Prefix:
			bits = p.BitsPerPrefix()
		case rangefilter.Grafite:
			bits = p.BitsPerKey()
		}
		r.RangeFilters = append(r.RangeFilters, manifest.NamedFilter{Name: p.Name(), Bits: uint32(bits)})
	}
	return r
}

// recorded returns the compression as it is recorded: by the byte in tables, which never changes.
func (c Compression) recorded() manifest.Compression {
	if c == DefaultCompression {
		return 0
	}
	return 1 + manifest.Compression(c.inTables())
}

func fromRecorded(recorded manifest.Compression) Compression {
	for c := SnappyCompression; c <= ZstdCompression; c++ {
		if c.recorded() == recorded {
			return c
		}
	}
	return DefaultCompression
}

// recordedRetention returns the changes that a database has recorded to keep, none if no Open accepts them.
func recordedRetention(r *manifest.Options) ChangeRetention {
	keep := ChangeRetention{Bytes: r.ChangeBytes, Age: time.Duration(r.ChangeAge)}
	if keep.Bytes < 0 || keep.Bytes > maxChangeBytes || keep.Age < 0 {
		return ChangeRetention{}
	}
	return keep
}

// adoptOptions decides which changes the store keeps, compares its options with those that the directory has recorded,
// and makes the next edit record them.
func (o *opening) adoptOptions(state *manifest.State) error {
	recorded, _ := state.Recorded.Options()
	if err := o.adoptChanges(&recorded); err != nil {
		return err
	}
	own := o.inForce.toRecord(o.opts.Changes)
	if state.Ours || len(recorded.List()) > 0 {
		if o.opts.ReadOnly { // it keeps none
			own.ChangeBytes, own.ChangeAge = recorded.ChangeBytes, recorded.ChangeAge
		}
		for _, c := range recorded.Compare(own) {
			o.report.OptionsChanged = append(o.report.OptionsChanged, report.OptionChange{Option: c.Name, Recorded: c.Before, Opened: c.After})
		}
	}
	o.recordOptions()
	return nil
}

// toRecord returns what the store would record.
func (o *optionsInForce) toRecord(keep ChangeRetention) *manifest.Options {
	passed := o.options.Load().passed
	passed.Changes = keep
	return passed.toRecord()
}

// recordOptions makes the next edit record the options in force.
func (p *parts) recordOptions() {
	if p.set != nil && !p.opts.ReadOnly && !p.opts.KeepRecord {
		p.set.RecordOptions(p.inForce.toRecord(p.opts.Changes))
	}
}

// recordFaults returns what is wrong with the recorded options.
func (d *DB) recordFaults() (faults []string) {
	if d.set == nil {
		return nil
	}
	kept := d.set.Recorded()
	_, unreadable := kept.Options()
	for _, u := range unreadable {
		if u.Name != "" {
			faults = append(faults, fmt.Sprintf("the MANIFEST has recorded Options.%s in a form that this version does not know: "+
				"a newer version wrote it, or it is wrong; the next opening for writing records the option again", u.Name))
		}
	}
	return faults
}

// maxChangeBytes is the largest ChangeRetention.Bytes.
const maxChangeBytes = 1 << 60
