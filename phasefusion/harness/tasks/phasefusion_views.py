"""Functions of the tasks beside this file: the questions about the shipped clips."""

from phasefusion import tinyvlm
from phasefusion.harness.views import OrderView, QuestionTask

pf_tiny = QuestionTask(tinyvlm.questions_path().parent)
pf_tiny_doc_to_visual = pf_tiny.doc_to_visual
pf_tiny_doc_to_text = pf_tiny.doc_to_text
pf_tiny_doc_to_target = pf_tiny.doc_to_target
pf_tiny_process_results = pf_tiny.process_results

_reverse = OrderView("pf_tiny", pf_tiny.doc_to_text, pf_tiny.process_results, "reverse")
pf_tiny_pf_reverse_doc_to_text = _reverse.doc_to_text
pf_tiny_pf_reverse_process_results = _reverse.process_results

_rotate1 = OrderView("pf_tiny", pf_tiny.doc_to_text, pf_tiny.process_results, "rotate1")
pf_tiny_pf_rotate1_doc_to_text = _rotate1.doc_to_text
pf_tiny_pf_rotate1_process_results = _rotate1.process_results
