#!/bin/sh
# langchain-core 1.8.3, langchain_core.decisions: a ClassifierResponse takes a choice that was not
# offered, probabilities that sum to 7, and the text "0.9" or the Boolean True for a probability;
# an answer that is missing is no error either.
#
# Expected: the base class of all decision models knows the questions and the ranges of answers, so
# that what it returns can be acted on. Who compares a probability with a threshold would not check
# again that it is a number from 0 to 1 for an option that was offered.
#
# Seen, on Python 3.11: what is below. So check each answer against the question.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check langchain-core==1.8.3
cat >expected <<'EOF'
asked: route, spam, urgent
answered: route, urgent
route: sales, probabilities that sum to 7.0
urgent: 0.9 from the text "0.9", 1.0 from True
EOF
env/bin/python - <<'EOF' | tee seen
from langchain_core.decisions import BaseDecisionModel, Choice, ClassifierResponse, Noul


class Model(BaseDecisionModel):
    model: str = "any"
    urgent: object = "0.9"

    @property
    def _provider(self):
        return "any"

    def _classify(self, state, questions):
        shares = {"billing": 3.0, "sales": 4.0}
        route = {"type": "choice", "choice": "sales", "probabilities": shares, "confidence": 1.0}
        answers = {"route": route, "urgent": {"type": "noul", "noul": self.urgent}}
        return ClassifierResponse.model_validate({"model": "any", "answers": answers})


route = Choice(instructions="Who handles this?", criteria={"billing": None, "support": None})
yes_or_no = {name: Noul(instructions=f"Is this {name}?") for name in ("urgent", "spam")}
questions = {"route": route, **yes_or_no}
request = {"state": "I was charged twice.", "questions": questions}
reply = Model().invoke(request)
print("asked:", ", ".join(sorted(questions)))
print("answered:", ", ".join(sorted(reply.answers)))
told = reply.choices["route"]
print(f"route: {told.choice}, probabilities that sum to {sum(told.probabilities.values())}")
true = Model(urgent=True).invoke(request).nouls["urgent"].noul
print(f'urgent: {reply.nouls["urgent"].noul} from the text "0.9", {true} from True')
EOF
diff expected seen
