package lint

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const chartPath = "../charts/banyan"

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is `helm template banyan --namespace llm` with values.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	var vals map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &vals); err != nil {
		t.Fatal(err)
	}
	c := loadChart(t)
	release := chartutil.ReleaseOptions{Name: "banyan", Namespace: "llm", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, vals, release, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// objects are a rendered chart, strictly decoded: a field that Kubernetes does
// not know is an error.
type objects struct {
	text       string // all manifests but tests, in order of file name
	notes      string
	deployment appsv1.Deployment
	services   map[string]corev1.Service
	config     corev1.ConfigMap
	dashboard  *corev1.ConfigMap
	budget     *policyv1.PodDisruptionBudget
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	policy     *networkingv1.NetworkPolicy
	account    *corev1.ServiceAccount
	role       *rbacv1.Role
	binding    *rbacv1.RoleBinding
	cluster    *rbacv1.ClusterRole
	test       corev1.Pod
	monitor    map[string]any
	rules      map[string]any
	other      []map[string]any
}

func mustRender(t *testing.T, values string) *objects {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{services: map[string]corev1.Service{}}
	for _, name := range sorted(files) {
		text := files[name]
		if strings.HasSuffix(name, "NOTES.txt") {
			o.notes = text
			continue
		}
		for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
			if strings.TrimSpace(doc) == "" {
				continue
			}
			if !strings.Contains(name, "/tests/") {
				o.text += "---\n# " + strings.TrimPrefix(name, "banyan/") + "\n" + strings.Trim(doc, "\n") + "\n"
			}
			o.take(t, name, []byte(doc))
		}
	}
	return o
}

// take decodes one manifest by its kind.
func (o *objects) take(t *testing.T, name string, doc []byte) {
	t.Helper()
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, doc)
	}
	if head.Kind == "" { // a comment alone
		return
	}
	into := func(v any) {
		if err := yaml.UnmarshalStrict(doc, v); err != nil {
			t.Errorf("%s: %s %s: %v\n%s", name, head.Kind, head.Metadata.Name, err, doc)
		}
	}
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 Deployment":
		into(&o.deployment)
	case "v1 Service":
		var s corev1.Service
		into(&s)
		o.services[s.Name] = s
	case "v1 ConfigMap":
		if strings.HasSuffix(head.Metadata.Name, "-dashboard") {
			o.dashboard = new(corev1.ConfigMap)
			into(o.dashboard)
			return
		}
		into(&o.config)
	case "policy/v1 PodDisruptionBudget":
		o.budget = new(policyv1.PodDisruptionBudget)
		into(o.budget)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		o.autoscaler = new(autoscalingv2.HorizontalPodAutoscaler)
		into(o.autoscaler)
	case "networking.k8s.io/v1 NetworkPolicy":
		o.policy = new(networkingv1.NetworkPolicy)
		into(o.policy)
	case "v1 ServiceAccount":
		o.account = new(corev1.ServiceAccount)
		into(o.account)
	case "rbac.authorization.k8s.io/v1 Role":
		o.role = new(rbacv1.Role)
		into(o.role)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		o.binding = new(rbacv1.RoleBinding)
		into(o.binding)
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		o.cluster = new(rbacv1.ClusterRole)
		into(o.cluster)
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		into(new(rbacv1.ClusterRoleBinding))
	case "v1 Pod":
		into(&o.test)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		into(&o.monitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		into(&o.rules)
	default:
		var v map[string]any
		into(&v)
		o.other = append(o.other, v)
	}
}
