package prometheus

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/metrics"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

func openUsed(t *testing.T) *db.DB {
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	for i := range 300 {
		require.NoError(t, store.Put([]byte{byte(i), byte(i >> 8)}, []byte("value"), db.NoSync))
	}
	require.NoError(t, store.Flush())
	for i := range 600 {
		_, err := store.Has([]byte{byte(i), byte(i >> 8)})
		require.NoError(t, err)
	}
	return store
}

// The registry accepts the collector, its linter has no complaint, and two stores may be registered
// under different labels.
func TestCollectorIsValid(t *testing.T) {
	store := openUsed(t)
	problems, err := testutil.CollectAndLint(NewCollector(store, nil))
	require.NoError(t, err)
	require.Empty(t, problems)

	r := prometheus.NewPedanticRegistry()
	for _, name := range []string{"users", "orders"} {
		require.NoError(t, r.Register(NewCollector(store, &Options{Labels: prometheus.Labels{"db": name}})))
	}
	n, err := testutil.GatherAndCount(r, "sievedb_lookups_total")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

// The text that metrics.WriteText writes has the same values as client_golang's.
func TestTextAgreesWithTheCollector(t *testing.T) {
	source := fixed{*openUsed(t).Metrics()}
	source.m.Tables.UnknownFilters = map[string]int{"a \"name\"\n\xff": 1, "another": 2}
	source.m.Stalls.ByReason = map[string]report.StallTotal{"level 0 is full": {Count: 1, Duration: time.Second, Longest: time.Second}}
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(NewCollector(source, &Options{Labels: prometheus.Labels{"db": "x"}, Follower: true})))
	want, err := r.Gather()
	require.NoError(t, err)

	var text bytes.Buffer
	require.NoError(t, metrics.WriteText(&text, metrics.Read(source, true), "db", "x"))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	got, err := parser.TextToMetricFamilies(&text)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for _, f := range want {
		g := got[f.GetName()]
		require.NotNil(t, g, f.GetName())
		require.Equal(t, f.GetType(), g.GetType())
		require.Equal(t, f.GetHelp(), g.GetHelp())
		if f.GetName() != "sievedb_uptime_seconds" { // each was read at its moment
			require.Equal(t, textOf(t, f), textOf(t, g))
		}
	}
}

// textOf returns a family as client_golang writes it, with sorted labels and values.
func textOf(t *testing.T, f *dto.MetricFamily) string {
	for _, m := range f.Metric {
		slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	}
	slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return cmp.Compare(fmt.Sprint(a.Label), fmt.Sprint(b.Label)) })
	var b bytes.Buffer
	_, err := expfmt.MetricFamilyToText(&b, f)
	require.NoError(t, err)
	return b.String()
}

type fixed struct{ m report.Metrics }

func (f fixed) Metrics() *report.Metrics { return &f.m }
func (fixed) Lag() (report.Lag, error)   { return report.Lag{Operations: 3}, nil }

// OpenTelemetry's bridge reads all families of the collector.
func TestOpenTelemetryReadsTheCollector(t *testing.T) {
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(NewCollector(openUsed(t), nil)))
	reader := metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(r))))
	defer func() { require.NoError(t, reader.Shutdown(context.Background())) }()
	metric.NewMeterProvider(metric.WithReader(reader))
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &got))
	found := map[string]metricdata.Aggregation{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m.Data
		}
	}
	want, err := r.Gather()
	require.NoError(t, err)
	require.Len(t, found, len(want))
	lookups, ok := found["sievedb_lookups_total"].(metricdata.Sum[float64])
	require.True(t, ok)
	require.Equal(t, 600.0, lookups.DataPoints[0].Value)
	latency, ok := found["sievedb_operation_seconds"].(metricdata.Histogram[float64])
	require.True(t, ok)
	require.False(t, math.IsInf(latency.DataPoints[0].Sum, 0))
}
