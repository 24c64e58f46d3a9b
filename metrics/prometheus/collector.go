// Package prometheus exports the metrics of a store through client_golang, Prometheus' library for Go:
//
//	import (
//		"github.com/prometheus/client_golang/prometheus"
//
//		sieveprom "github.com/sievedb/sievedb/metrics/prometheus"
//	)
//
//	prometheus.MustRegister(sieveprom.NewCollector(store, nil))
//
// The names are those of package metrics. The directory grafana has a dashboard for them. A program
// without client_golang can serve metrics.WriteText instead.
//
// OpenTelemetry reads the collector through its Prometheus bridge,
// go.opentelemetry.io/contrib/bridges/prometheus, which is a producer of metrics for a reader of its SDK.
package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sievedb/sievedb/metrics"
)

// Options say what a Collector exports. Nil means the defaults.
type Options struct {
	// Labels are given to every value. Collectors of several stores need different ones, such as
	// {"db": "users"}, to be registered together.
	Labels prometheus.Labels
	// Follower exports the lag as well, for a DB of db.OpenFollower. Each collection then reads what
	// was added to the files of the database.
	Follower bool
}

// Collector is a prometheus.Collector of one store. It keeps nothing: each collection reads the counters of the store
// and lists its directory, which takes microseconds, and about one more for each file. All values are of that moment.
type Collector struct {
	source   metrics.Source
	follower bool
	families []metrics.Family
	descs    []*prometheus.Desc // of families
	bounds   []float64          // of histograms, in seconds
}

// NewCollector returns a collector of a store, a *db.DB. After the store was closed, it exports what is still known.
func NewCollector(store metrics.Source, o *Options) *Collector {
	if o == nil {
		o = &Options{}
	}
	c := &Collector{source: store, follower: o.Follower, families: metrics.Families()}
	for i := range c.families {
		f := &c.families[i]
		c.descs = append(c.descs, prometheus.NewDesc(f.Name, f.Help, f.Labels, o.Labels))
	}
	for _, bound := range metrics.Bounds {
		c.bounds = append(c.bounds, bound.Seconds())
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := metrics.Read(c.source, c.follower)
	for i := range c.families {
		f := &c.families[i]
		for _, v := range f.Values(s) {
			to <- c.metric(f, c.descs[i], v)
		}
	}
}

func (c *Collector) metric(f *metrics.Family, d *prometheus.Desc, v metrics.Value) prometheus.Metric {
	switch f.Kind {
	case metrics.Histogram:
		buckets := make(map[float64]uint64, len(c.bounds))
		for i, n := range metrics.Cumulative(v.Histogram) {
			buckets[c.bounds[i]] = n
		}
		return prometheus.MustNewConstHistogram(d, v.Histogram.Count, v.Histogram.Sum.Seconds(), buckets, v.Labels...)
	case metrics.Counter:
		return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v.Value, v.Labels...)
	}
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v.Value, v.Labels...)
}
