package lint

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write ../manifests instead of comparing with them")

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const secret = "mesh: {existingSecret: banyan-mesh}\nadmin: {existingSecret: banyan-admin}\n"

// full turns everything on but the dashboard, which would fill the manifest.
const full = `
config:
  isolate_by: X-Tenant
  drain: {delay: 20s, timeout: 5m}
  replicas: [{name: r0, url: "http://r0:8000"}]
  discovery: {kubernetes: {selector: app=vllm}}
mesh: {existingSecret: banyan-mesh, extraSeeds: ["10.0.0.9:7946"], tls: {existingSecret: banyan-tls}}
auth: {existingSecret: banyan-clients}
admin:
  existingSecret: banyan-admin
  readKey: {existingSecret: banyan-admin-read}
  hosts: [banyan.example]
tls: {existingSecret: banyan-http-tls, clientCA: true}
image: {tag: 1.2.3, pullSecrets: [{name: registry}]}
service: {type: LoadBalancer, annotations: {a: b}}
preStopSleep: 5
autoscaling: {enabled: true}
networkPolicy:
  enabled: true
  adminFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  replicasTo: [{podSelector: {matchLabels: {app: vllm}}}]
  extraEgress: [{ports: [{port: 443}]}]
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
nodeSelector: {disk: ssd}
tolerations: [{operator: Exists}]
affinity: {podAntiAffinity: {}}
priorityClassName: high
podAnnotations: {x: "1"}
podLabels: {team: serving}
extraEnv: [{name: BANYAN_LOG_JSON, value: "true"}]
extraVolumes: [{name: more, emptyDir: {}}]
extraVolumeMounts: [{name: more, mountPath: /more}]
extraObjects: [{apiVersion: v1, kind: LimitRange, metadata: {name: "{{ .Release.Name }}-more"}}]
`

// matrix are the values rendered and checked; those marked are committed as
// manifests.
var matrix = map[string]string{
	"default":    secret,
	"full":       full,
	"insecure":   "mesh: {insecure: true}\nadmin: {insecure: true}\n",
	"admin-tls":  "mesh: {existingSecret: m}\nadmin: {existingSecret: a, readKey: {existingSecret: r}, tls: {existingSecret: t}}\nserviceMonitor: {enabled: true}\nrestartOnConfigChange: false\n",
	"renamed":    secret + "nameOverride: router\nfullnameOverride: a-very-long-name-that-goes-on-and-on-until-it-must-be-cut-somewhere\n",
	"fixed":      secret + "replicaCount: 0\npodDisruptionBudget: {maxUnavailable: 0}\nminReadySeconds: 0\n",
	"no-account": secret + "serviceAccount: {create: false, name: mine}\nimage: {digest: sha256:" + strings.Repeat("ab", 32) + "}\n",
	"watch-all":  secret + "config: {discovery: {kubernetes: {selector: app=vllm, namespace: \"*\"}}}\n",
	"no-budget":  "admin: {insecure: true}\npodDisruptionBudget: {enabled: false}\nresources: null\nmesh: {existingSecret: m, hashSecretItem: \"\"}\n",
	"policy":     secret + "networkPolicy: {enabled: true}\n",
}

func TestEveryRenderingHoldsTogether(t *testing.T) {
	for name, values := range matrix {
		t.Run(name, func(t *testing.T) { checkTogether(t, mustRender(t, values)) })
	}
}

// checkTogether holds for all values: names that point at each other exist.
func checkTogether(t *testing.T, o *objects) {
	pod := o.deployment.Spec.Template
	ports := map[string]bool{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	covers := func(what string, selector map[string]string) {
		for k, v := range selector {
			if pod.Labels[k] != v {
				t.Errorf("%s selects %s=%s, the pods have %q", what, k, v, pod.Labels[k])
			}
		}
		if len(selector) != 3 {
			t.Errorf("%s selects by %v: name, instance and component, nothing that changes", what, selector)
		}
	}
	covers("the Deployment", o.deployment.Spec.Selector.MatchLabels)
	if len(o.services) != 2 {
		t.Errorf("%d services", len(o.services))
	}
	for _, s := range o.services {
		covers("Service "+s.Name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				t.Errorf("Service %s leads to the port %q that no container names", s.Name, p.TargetPort.StrVal)
			}
		}
	}
	if o.budget != nil {
		covers("the PodDisruptionBudget", o.budget.Spec.Selector.MatchLabels)
	}
	if h := o.autoscaler; h != nil && (h.Spec.ScaleTargetRef.Kind != o.deployment.Kind || h.Spec.ScaleTargetRef.Name != o.deployment.Name) {
		t.Errorf("the autoscaler aims at %+v", h.Spec.ScaleTargetRef)
	}
	if (o.autoscaler == nil) != (o.deployment.Spec.Replicas != nil) {
		t.Error("replicas are either the Deployment's or the autoscaler's")
	}
	if p := o.policy; p != nil {
		covers("the NetworkPolicy", p.Spec.PodSelector.MatchLabels)
		for _, in := range p.Spec.Ingress {
			for _, port := range in.Ports {
				if port.Port.Type == intstr.String && !ports[port.Port.StrVal] {
					t.Errorf("the NetworkPolicy opens the port %q that no container names", port.Port.StrVal)
				}
			}
		}
	}
	checkVolumes(t, &pod.Spec)
	checkMesh(t, o)
}

// checkVolumes: every mount has its volume, every file named in the
// environment lies under a mount.
func checkVolumes(t *testing.T, pod *corev1.PodSpec) {
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	c := pod.Containers[0]
	var paths []string
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("the mount %s has no volume", m.Name)
		}
		delete(volumes, m.Name)
		paths = append(paths, m.MountPath)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes %v are mounted nowhere", volumes)
	}
	for _, e := range c.Env {
		if strings.HasPrefix(e.Value, "/") && !slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(e.Value, p+"/") }) {
			t.Errorf("%s=%s lies under no mount", e.Name, e.Value)
		}
		if e.Value == "" && e.ValueFrom == nil {
			t.Errorf("%s is empty", e.Name)
		}
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("service links set BANYAN_… variables that a peer refuses")
	}
	if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Capabilities.Drop[0] != "ALL" || !*pod.SecurityContext.RunAsNonRoot {
		t.Error("the container may more than it needs")
	}
}

// checkMesh: peers find each other before they are ready, by a name that is
// rendered here.
func checkMesh(t *testing.T, o *objects) {
	mesh, ok := o.services[o.deployment.Name+"-mesh"]
	if !ok || mesh.Spec.ClusterIP != corev1.ClusterIPNone || !mesh.Spec.PublishNotReadyAddresses {
		t.Errorf("the mesh Service is %+v", mesh.Spec)
	}
	if len(mesh.Name) > 63 {
		t.Errorf("the name %s has %d characters", mesh.Name, len(mesh.Name))
	}
	seed := mesh.Name + ":7946"
	if got := env(o, "BANYAN_MESH_JOIN"); !strings.HasPrefix(got, seed) {
		t.Errorf("seeds %q do not begin with %q", got, seed)
	}
	protocols := map[corev1.Protocol]bool{}
	for _, p := range mesh.Spec.Ports {
		if p.Port == 7946 {
			protocols[p.Protocol] = true
		}
	}
	if !protocols[corev1.ProtocolTCP] || !protocols[corev1.ProtocolUDP] {
		t.Errorf("the mesh port has %v", protocols)
	}
}

func env(o *objects, name string) string {
	for _, e := range o.deployment.Spec.Template.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func TestRollingUpdateLosesNoPeer(t *testing.T) {
	o := mustRender(t, secret)
	r := o.deployment.Spec.Strategy.RollingUpdate
	if r == nil || r.MaxUnavailable.IntVal != 0 || r.MaxSurge.IntVal != 1 {
		t.Errorf("rolling update %+v", r)
	}
	pod := o.deployment.Spec.Template.Spec
	if g := *pod.TerminationGracePeriodSeconds; g != 635 {
		t.Errorf("grace %d s, want 15 + 600 + 20", g)
	}
	c := pod.Containers[0]
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.StartupProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("liveness must not look at readiness")
	}
	if c.Lifecycle != nil || c.Resources.Limits.Cpu().Sign() != 0 {
		t.Error("no preStop and no CPU limit by default")
	}
}

func TestZeroSurvives(t *testing.T) {
	o := mustRender(t, matrix["fixed"])
	if *o.deployment.Spec.Replicas != 0 || o.budget.Spec.MaxUnavailable == nil || o.budget.Spec.MaxUnavailable.IntVal != 0 {
		t.Errorf("replicas %d, budget %v", *o.deployment.Spec.Replicas, o.budget.Spec)
	}
}

func TestFullChart(t *testing.T) {
	o := mustRender(t, full+"dashboard: {enabled: true}\n")
	if g := *o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; g != 5+20+300+20 {
		t.Errorf("grace %d s", g)
	}
	if o.role == nil || o.binding == nil || o.account == nil || o.monitor == nil || o.rules == nil || o.dashboard == nil {
		t.Fatal("something is missing")
	}
	if s := o.binding.Subjects[0]; s.Name != o.account.Name || s.Namespace != "llm" || o.binding.RoleRef.Name != o.role.Name {
		t.Errorf("binding %+v %+v", s, o.binding.RoleRef)
	}
	if *o.deployment.Spec.Template.Spec.AutomountServiceAccountToken != true {
		t.Error("discovery needs the token")
	}
	var config map[string]any
	if err := yaml.UnmarshalStrict([]byte(o.config.Data["banyan.yaml"]), &config); err != nil || config["isolate_by"] != "X-Tenant" {
		t.Errorf("config %v, %v", config, err)
	}
	if len(o.policy.Spec.PolicyTypes) != 2 || len(o.other) != 1 {
		t.Errorf("policy types %v, %d extra objects", o.policy.Spec.PolicyTypes, len(o.other))
	}
	rules := fmt.Sprint(o.rules)
	if !strings.Contains(rules, "BanyanNoReplica") || !strings.Contains(rules, `up{job="banyan"}`) {
		t.Error("the rules are not in the PrometheusRule")
	}
}

func TestRulesFollowTheName(t *testing.T) {
	o := mustRender(t, secret+"fullnameOverride: pool-a\nprometheusRule: {enabled: true}\nserviceMonitor: {enabled: true}\n")
	if rules := fmt.Sprint(o.rules); strings.Contains(rules, `job="banyan"`) || !strings.Contains(rules, `up{job="pool-a"}`) {
		t.Error("the rules read another job than the ServiceMonitor sets")
	}
	if !strings.Contains(fmt.Sprint(o.monitor), "replacement:pool-a") {
		t.Errorf("monitor %v", o.monitor)
	}
}

func TestClusterRoleOnlyForAllNamespaces(t *testing.T) {
	if o := mustRender(t, matrix["watch-all"]); o.cluster == nil || o.role != nil {
		t.Error("namespace * needs a ClusterRole")
	}
	o := mustRender(t, secret)
	if o.cluster != nil || o.role != nil || *o.deployment.Spec.Template.Spec.AutomountServiceAccountToken {
		t.Error("without discovery no rights and no token")
	}
}

func TestNotesWarn(t *testing.T) {
	if n := mustRender(t, matrix["insecure"]).notes; strings.Count(n, "WARNING") != 3 {
		t.Errorf("notes without replicas and keys:\n%s", n)
	}
	if n := mustRender(t, full).notes; strings.Contains(n, "WARNING") {
		t.Errorf("notes:\n%s", n)
	}
}

func TestWrongValuesAreRefusedWithACure(t *testing.T) {
	for values, want := range map[string]string{
		"": "banyan keygen > mesh.key",
		"mesh: {existingSecret: a, insecure: true}":                             "exclude each other",
		"mesh: {existingSecret: a}":                                             "banyan keygen --admin ops",
		secret + "tls: {existingSecret: t, clientCa: true}":                     "clientCa",
		"mesh: {existingSecret: a}\nadmin: {existingSecret: b, insecure: true}": "exclude each other",
		secret + "config: {admin: {keys_file: /x}}":                             "use admin.existingSecret",
		secret + "config: {http: {tls: {cert: /x}}}":                            "use tls.existingSecret",
		secret + "replicaCont: 3":                                               "replicaCont",
		secret + "replicaCount: three":                                          "replicaCount",
		secret + "service: {prt: 80}":                                           "prt",
		secret + "podDisruptionBudget: {maxUnavailable: some}":                  "maxUnavailable",
		secret + "config: {drain: {delay: soon}}":                               "config.drain.delay",
		secret + "config: {http: {listen: \":9000\"}}":                          "config.http.listen is set by the chart",
		secret + "config: {mesh: {keyring: /x}}":                                "use mesh.existingSecret",
		secret + "config: {auth: {keys_file: /x}}":                              "use auth.existingSecret",
		secret + "autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 2}": "minReplicas",
		secret + "image: {digest: latest}":                                      "digest",
	} {
		_, err := render(t, values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", values, err, want)
		}
	}
}

func TestGraceCountsEveryUnit(t *testing.T) {
	for drain, want := range map[string]int64{
		"{delay: 0s, timeout: 1h30m}":     5400 + 20,
		"{delay: 1500ms, timeout: 1m30s}": 2 + 90 + 20,
		"{delay: 1s}":                     1 + 600 + 20,
	} {
		o := mustRender(t, secret+"config: {drain: "+drain+"}\n")
		if got := *o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("drain %s: grace %d s, want %d", drain, got, want)
		}
	}
}

// TestManifestsAreWhatTheChartRenders holds the committed manifests.
func TestManifestsAreWhatTheChartRenders(t *testing.T) {
	for _, name := range []string{"default", "full"} {
		path := "../manifests/" + name + ".yaml"
		want := "# Rendered from charts/banyan for the namespace llm; go test -rewrite in lint/ renews it.\n" + mustRender(t, matrix[name]).text
		if *rewrite {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the chart renders; see doc.go", path)
		}
	}
}

// TestMonitorFindsTheMeshService: the ServiceMonitor selects one Service, by
// labels it has, and a port it names.
func TestMonitorFindsTheMeshService(t *testing.T) {
	o := mustRender(t, full)
	var monitor struct {
		Spec struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct{ Port string }
		}
	}
	data, err := yaml.Marshal(o.monitor)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &monitor); err != nil {
		t.Fatal(err)
	}
	var found []string
	for name, s := range o.services {
		matches := true
		for k, v := range monitor.Spec.Selector.MatchLabels {
			matches = matches && s.Labels[k] == v
		}
		for _, p := range s.Spec.Ports {
			if matches && p.Name == monitor.Spec.Endpoints[0].Port {
				found = append(found, name)
			}
		}
	}
	if len(found) != 1 || found[0] != "banyan-mesh" {
		t.Errorf("the ServiceMonitor finds %v", found)
	}
}

// TestSecretsAreThoseOfTheValues: the chart makes no Secret and mounts none but
// those that the values name.
func TestSecretsAreThoseOfTheValues(t *testing.T) {
	o := mustRender(t, full)
	if strings.Contains(o.text, "kind: Secret") {
		t.Error("a Secret is rendered: a key made anew at every upgrade splits the mesh")
	}
	var mounted []string
	for _, v := range o.deployment.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			mounted = append(mounted, v.Secret.SecretName)
		}
	}
	if want := []string{"banyan-admin", "banyan-admin-read", "banyan-http-tls", "banyan-mesh", "banyan-tls", "banyan-clients"}; !slices.Equal(mounted, want) {
		t.Errorf("secrets %v, want %v", mounted, want)
	}
}

// TestConfigCanChangeUnderAPeer: a ConfigMap mounted by subPath never changes.
func TestConfigCanChangeUnderAPeer(t *testing.T) {
	o := mustRender(t, matrix["admin-tls"])
	for _, m := range o.deployment.Spec.Template.Spec.Containers[0].VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted by subPath", m.Name)
		}
	}
	if len(o.deployment.Spec.Template.Annotations) != 0 {
		t.Errorf("annotations %v: a change of config would replace the pods", o.deployment.Spec.Template.Annotations)
	}
	if a := mustRender(t, secret).deployment.Spec.Template.Annotations; a["checksum/config"] == "" {
		t.Error("by default a change of config must replace the pods")
	}
}

// TestTLSReachesProbesAndScrapes: who asks a TLS port must speak TLS.
func TestTLSReachesProbesAndScrapes(t *testing.T) {
	c := mustRender(t, full).deployment.Spec.Template.Spec.Containers[0]
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p.HTTPGet.Scheme != corev1.URISchemeHTTPS {
			t.Errorf("probe %s by %q", p.HTTPGet.Path, p.HTTPGet.Scheme)
		}
	}
	if c := mustRender(t, secret).deployment.Spec.Template.Spec.Containers[0]; c.ReadinessProbe.HTTPGet.Scheme != "" {
		t.Error("the probe speaks TLS to a plain port")
	}
	monitor := fmt.Sprint(mustRender(t, matrix["admin-tls"]).monitor)
	if !strings.Contains(monitor, "scheme:https") || !strings.Contains(monitor, "credentials:map[key:key name:r]") {
		t.Errorf("monitor %v", monitor)
	}
}
