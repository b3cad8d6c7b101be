package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/banyan-llm/banyan/router/openai"
)

const modelsPath = "/v1/models"

func (x *exchange) isModels() bool {
	p := x.r.URL.Path
	return p == modelsPath || strings.HasPrefix(p, modelsPath+"/")
}

// serveModels answers /v1/models and /v1/models/{id} from what is known of
// all replicas.
func (x *exchange) serveModels() {
	models := []Model{}
	if x.cfg.Models != nil {
		models = append(models, x.cfg.Models()...)
	}
	for i := range models {
		models[i].Object = "model"
	}
	id := strings.TrimPrefix(strings.TrimPrefix(x.r.URL.Path, modelsPath), "/")
	if id == "" {
		x.writeJSON(struct {
			Object string  `json:"object"`
			Data   []Model `json:"data"`
		}{"list", models})
		return
	}
	for i := range models {
		if models[i].ID == id {
			x.writeJSON(&models[i])
			return
		}
	}
	x.refuse(x.unknownModel(id))
}

// namedModels is how many models a refusal names.
const namedModels = 8

// unknownModel is the answer to a name that nobody serves: it names those served.
func (x *exchange) unknownModel(id string) *openai.Error {
	text := "The model `" + id + "` does not exist."
	if x.cfg.Models != nil {
		var names []string
		for _, m := range x.cfg.Models() {
			names = append(names, "`"+m.ID+"`")
		}
		if more := len(names) - namedModels; more > 0 {
			names = append(names[:namedModels], fmt.Sprintf("%d more", more))
		}
		if names != nil {
			text += " Served here: " + strings.Join(names, ", ") + "."
		}
	}
	fail := refusal(http.StatusNotFound, "model_not_found", text)
	fail.Param = "model"
	return fail
}

func (x *exchange) writeJSON(v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("invariant: models marshal: " + err.Error())
	}
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.lastHeader()
	x.answer(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body)
	}
}
