package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/overview"
)

// figures are the series of a text in the format of Prometheus: the labels of each by name.
type figures map[string][]string

func parseFigures(t *testing.T, text string) (f figures, series int) {
	f = figures{}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, _ := strings.Cut(line[:strings.LastIndexByte(line, ' ')], "{")
		require.False(t, seen[name+labels], "twice: %s", line)
		seen[name+labels] = true
		f[name] = append(f[name], labels)
	}
	return f, len(seen)
}

// A scrape of a node with 64 groups was 21,844 series.
func TestAScrapeIsShortAndGroupsAreOnDemand(t *testing.T) {
	parallel(t)
	o := fast("1")
	o.Shape.Groups, o.Shape.Replicas = 64, 1
	s := httptest.NewServer(start(t, o).Handler())
	defer s.Close()
	get := func(path string, status int) string {
		r, err := http.Get(s.URL + path)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Body.Close()) }()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, status, r.StatusCode, "%s: %s", path, text)
		return string(text)
	}
	short, n := parseFigures(t, get("/metrics", 200))
	t.Logf("%d series", n)
	require.LessOrEqual(t, n, 500)
	require.Len(t, short["sievedb_lookups_total"], 2, "the logs, and the sum of all groups")
	require.Len(t, short["sieved_finding"], len(overview.Kinds))
	require.Empty(t, short["sieved_group_term"])
	require.Contains(t, get("/metrics", 200), "\nsieved_groups_led 64\n")

	all, n := parseFigures(t, get("/metrics?groups=all", 200))
	t.Logf("%d series of all groups", n)
	require.Len(t, all["sievedb_lookups_total"], 65)
	require.Len(t, all["sieved_group_term"], 64)
	require.NotContains(t, get("/metrics?groups=all", 200), `group="all"`)
	for name := range short {
		require.Contains(t, all, name)
	}
	one, _ := parseFigures(t, get("/metrics?group=7&group=9", 200))
	require.Equal(t, []string{`group="7"}`, `group="9"}`}, one["sieved_group_term"])
	require.Len(t, one["sievedb_lookups_total"], 2)
	require.Empty(t, one["sieved_nodes"])
	for _, query := range []string{"groups=7", "group=all", "group=-1", "grou=1", "group=99999"} {
		require.Contains(t, get("/metrics?"+query, 400), "/metrics?groups=all")
	}
}

// Each series that a rule names is in a scrape of a node, with the labels by which the rule selects and groups.
func TestAlertsNameWhatANodeExports(t *testing.T) {
	parallel(t)
	rules, err := os.ReadFile("alerts/sieved.yml")
	require.NoError(t, err)
	cases, err := os.ReadFile("alerts/sieved_test.yml")
	require.NoError(t, err)
	o := fast("1")
	o.Shape.Groups = 1
	var text strings.Builder
	n := start(t, o)
	require.NoError(t, n.WriteMetrics(&text, nil))
	exported, _ := parseFigures(t, text.String())
	series := regexp.MustCompile(`\b(sievedb?_\w+)(\{[^}]*\})?`).FindAllStringSubmatch(string(rules), -1)
	require.Greater(t, len(series), 10)
	for _, s := range series {
		require.Contains(t, exported, s[1])
		for _, want := range regexp.MustCompile(`\w+="[^"]*"`).FindAllString(s[2], -1) {
			require.Contains(t, strings.Join(exported[s[1]], " "), want, s[0])
		}
	}
	require.Contains(t, strings.Join(exported["sieved_finding"], " "), "kind=")
	require.Contains(t, strings.Join(exported["sieved_node_silent_seconds"], " "), "node=")
	for _, name := range regexp.MustCompile(`kind="?(\w+)`).FindAllStringSubmatch(string(rules)+string(cases), -1) {
		require.Contains(t, overview.Kinds, name[1])
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.Len(t, alerts, 12)
	for _, a := range alerts {
		require.Equal(t, 2, strings.Count(string(cases), "alertname: "+a[1]), a[1])
	}
}

// Prometheus evaluates the rules as the cases say.
func TestAlertsWithPromtool(t *testing.T) {
	promtool := os.Getenv("SIEVEDB_PROMTOOL")
	if promtool == "" {
		var err error
		if promtool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("promtool, of Prometheus, is not installed; name it in SIEVEDB_PROMTOOL")
		}
	}
	for _, words := range [][]string{{"check", "rules", "sieved.yml"}, {"test", "rules", "sieved_test.yml"}} {
		cmd := exec.Command(promtool, words...)
		cmd.Dir = "alerts"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}
