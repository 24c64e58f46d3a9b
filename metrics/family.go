package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/sievedb/sievedb/report"
)

// Kind is the kind of a family.
type Kind string

// The kinds, with the words of the text format.
const (
	Counter   Kind = "counter"   // only rises while a store is open
	Gauge     Kind = "gauge"     // rises and falls
	Histogram Kind = "histogram" // counts durations by length
)

// Family is a set of values with one meaning and different labels.
type Family struct {
	// Name has the unit at its end, and "_total" for a Counter.
	Name, Help string
	Kind       Kind
	// Labels are the names of the labels of each value.
	Labels []string

	read func(s *Snapshot, emit emitter)
}

// Value is one value of a family.
type Value struct {
	// Labels are the values of Family.Labels, in their order.
	Labels []string
	// Value is that of a Counter or a Gauge. It is 0 for a Histogram.
	Value float64
	// Histogram is nil unless the family is one.
	Histogram *report.LatencyHistogram
}

type emitter func(Value)

// add emits a number.
func (e emitter) add(value float64, labels ...string) { e(Value{Labels: labels, Value: value}) }

// Snapshot has what is read of a store at one moment.
type Snapshot struct {
	Metrics *report.Metrics
	// Follower says that the store follows another one. Lag is what it lacks then, nil if it could not be read.
	Follower bool
	Lag      *report.Lag
	// Time is when the snapshot was taken.
	Time time.Time
	// Disk has the sizes of the files, nil if they are not known.
	Disk *report.DiskUsage
	// Free is how many bytes may still be written, nil if that is not known.
	Free *uint64
}

// Source is what is exported: a *db.DB.
type Source interface {
	Metrics() *report.Metrics
}

// lagging is what a follower has besides.
type lagging interface {
	Lag() (report.Lag, error)
}

// sized is what a store in a directory has besides.
type sized interface {
	DiskUsage() (report.DiskUsage, error)
	FreeBytes() (n uint64, known bool)
}

// Read reads a store. It lists its directory, which costs about a microsecond for each file. With follower set it calls
// Lag, which reads what was added to the files of the database; use it for a DB of db.OpenFollower. A nil source has no
// figures.
func Read(source Source, follower bool) Snapshot {
	s := Snapshot{Metrics: &report.Metrics{}, Follower: follower, Time: time.Now()}
	if source != nil {
		s.Metrics = source.Metrics()
	}
	if f, ok := source.(lagging); ok && follower {
		if lag, err := f.Lag(); err == nil {
			s.Lag = &lag
		}
	}
	if d, ok := source.(sized); ok {
		if usage, err := d.DiskUsage(); err == nil {
			s.Disk = &usage
		}
		if free, known := d.FreeBytes(); known {
			s.Free = &free
		}
	}
	return s
}

// Families returns all families, in the order of the fields of report.Metrics.
func Families() []Family { return slices.Clone(families) }

// Values returns the values of a family. A family may have none.
func (f *Family) Values(s Snapshot) (all []Value) {
	f.read(&s, func(v Value) { all = append(all, v) })
	return all
}

// labelText makes a name from a file, which may be any bytes, valid as a label. Different names stay different.
func labelText(name string) string {
	if q := strconv.QuoteToASCII(name); q[1:len(q)-1] != name {
		return q
	}
	return name
}
