package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules name exported series and their labels, and each alert has a case in which it fires and one in which it does
// not.
func TestAlertsNameWhatIsExported(t *testing.T) {
	text, err := os.ReadFile("alerts/sievedb.yml")
	require.NoError(t, err)
	cases, err := os.ReadFile("alerts/sievedb_test.yml")
	require.NoError(t, err)
	exported := series()
	for _, name := range metricName.FindAllString(string(text), -1) {
		require.Contains(t, exported, name)
	}
	for _, s := range selector.FindAllStringSubmatch(string(text), -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			require.Contains(t, exported[s[1]].Labels, m[1], s[0])
		}
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, alerts, 10)
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
	for _, words := range [][]string{{"check", "rules", "sievedb.yml"}, {"test", "rules", "sievedb_test.yml"}} {
		cmd := exec.Command(promtool, words...)
		cmd.Dir = "alerts"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}
