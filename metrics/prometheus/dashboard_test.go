package prometheus

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/metrics"
)

// dashboard has the parts of Grafana's JSON that are checked.
type dashboard struct {
	Panels     []dashboardPanel
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

type dashboardPanel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Collapsed   bool
	Panels      []dashboardPanel // of a collapsed row
	FieldConfig struct {
		Defaults struct{ Unit string }
	}
	Targets []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) (d dashboard) {
	text, err := os.ReadFile("grafana/sievedb.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// all returns the rows and the panels, also those of collapsed rows.
func (d *dashboard) all() (all []dashboardPanel) {
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// expressions returns all queries of the dashboard.
func (d *dashboard) expressions() (all []string) {
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			all = append(all, v.Definition)
		}
	}
	for _, p := range d.all() {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\bsievedb_\w+`)
	selector   = regexp.MustCompile(`\b(sievedb_\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([$\w]+)=~?"([^"]*)"`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	legend     = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// series returns the families by the names of their series.
func series() map[string]metrics.Family {
	all := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		if f.Kind != metrics.Histogram {
			all[f.Name] = f
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[f.Name+suffix] = f
		}
	}
	return all
}

// Each query names exported series and their labels, and each family is on the dashboard.
func TestDashboardShowsWhatIsExported(t *testing.T) {
	d, exported, shown := readDashboard(t), series(), map[string]bool{}
	for _, e := range d.expressions() {
		names := metricName.FindAllString(e, -1)
		require.NotEmpty(t, names, e)
		labels := []string{"instance", "le"}
		for _, name := range names {
			require.Contains(t, exported, name, e)
			shown[exported[name].Name] = true
			labels = append(labels, exported[name].Labels...)
		}
		for _, by := range grouping.FindAllStringSubmatch(e, -1) {
			for _, label := range strings.Split(by[1], ", ") {
				require.Contains(t, labels, label, e)
			}
		}
	}
	for _, f := range metrics.Families() {
		require.Equal(t, !strings.HasPrefix(f.Help, "The former name of"), shown[f.Name], "%s", f.Name)
	}
}

// The values in the selectors of the dashboard are values that the labels have.
func TestDashboardSelectsExistingLabels(t *testing.T) {
	known := map[string][]string{
		"result": {"negative", "true_positive", "false_positive"}, "source": {"cache", "disk"}, "level": {"0", "1", "2", "3", "4", "5", "6"},
		"part": {"tables", "unlisted_tables", "logs", "manifest", "lost", "changes", "other", "filter", "range_filter", "index"},
	}
	s := metrics.Snapshot{Metrics: openUsed(t).Metrics()}
	for _, f := range metrics.Families() {
		for _, v := range f.Values(s) {
			for i, label := range f.Labels {
				if values, ok := known[label]; ok {
					require.Contains(t, values, v.Labels[i], f.Name)
				}
			}
		}
	}
	checked := 0
	d := readDashboard(t)
	for _, e := range d.expressions() {
		for _, s := range selector.FindAllStringSubmatch(e, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if own := map[string]string{"instance": "$instance", "$label": "$store"}[m[1]]; own != "" {
					require.Equal(t, own, m[2], e)
					continue
				}
				require.Contains(t, series()[s[1]].Labels, m[1], e)
				for _, value := range strings.Split(m[2], "|") {
					require.Contains(t, known[m[1]], value, e)
					checked++
				}
			}
		}
	}
	require.Positive(t, checked)
}

// Panels have a title, a unit and a place of their own, and legends show labels that the query keeps.
func TestDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	ids := map[int]bool{}
	for _, p := range d.Panels {
		requireRoom(t, p.Panels)
		require.Equal(t, p.Collapsed, len(p.Panels) > 0, p.Title)
	}
	requireRoom(t, d.Panels)
	for _, p := range d.all() {
		require.NotEmpty(t, p.Title)
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			for _, l := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				kept := slices.ContainsFunc(grouping.FindAllStringSubmatch(target.Expr, -1), func(by []string) bool {
					return slices.Contains(strings.Split(by[1], ", "), l[1])
				})
				require.True(t, kept || l[1] == "instance" && !strings.Contains(target.Expr, "sum("), "%s: {{%s}}", p.Title, l[1])
			}
		}
	}
	require.Greater(t, len(ids), 30)
}

// requireRoom requires that panels that are shown together do not cover each other.
func requireRoom(t *testing.T, panels []dashboardPanel) {
	t.Helper()
	taken := map[[2]int]string{}
	for _, p := range panels {
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s covers another panel", p.Title)
				taken[at] = p.Title
			}
		}
	}
}

// The rows that are not looked at first are collapsed, and each query can be limited to one store.
func TestDashboardHasAVariableForTheStore(t *testing.T) {
	d := readDashboard(t)
	open := 0
	for _, p := range d.Panels {
		if p.Type == "row" && !p.Collapsed {
			open++
		}
	}
	require.Equal(t, 2, open)
	for _, p := range d.all() {
		for _, target := range p.Targets {
			require.Equal(t, strings.Count(target.Expr, "sievedb_"), strings.Count(target.Expr, `{instance=~"$instance",$label=~"$store"`), target.Expr)
		}
	}
}
