"""A chat model written as those of lmms-eval are, to be wrapped unmodified.

Messages go to a chat template, the video to a reader that stands in the module, both to
the processor and to ``generate``, and the text is decoded.
"""

from __future__ import annotations

from tqdm import tqdm

decord = object()


def process_vision_info(*args, **kwargs):
    raise AssertionError("the reader of the model was asked")


def log_metrics(*args, **kwargs):
    raise AssertionError("metrics of first steps were logged")


class Chat:
    is_simple = False
    batch_size, rank, world_size = 1, 0, 1

    def __init__(self, model, processor, batch_size=1, n_turns=1, logs_errors=False):
        self.model, self.processor, self.task_dict = model, processor, {}
        self.n_turns, self.logs_errors = n_turns, logs_errors

    def generate_until(self, requests):
        found = []
        for request in tqdm(requests):
            _, to_messages, _, doc_id, task, split = request.args
            assert decord is None
            messages = to_messages(self.task_dict[task][split][doc_id])
            messages.insert(0, {"role": "system", "content": "Be brief."})
            inputs = self._inputs([self._as_hugging_face_does(m) for m in messages])
            for _ in range(self.n_turns):
                try:
                    ids = self.model.generate(
                        **inputs,
                        max_new_tokens=16,
                        do_sample=True,
                        temperature=0.7,
                        top_p=0.9,
                    )
                except ValueError:
                    if not self.logs_errors:
                        raise
                    return [""]
            found.append(self.processor.batch_decode(ids[:, -1:])[0])
            log_metrics(found)
        return found

    def _as_hugging_face_does(self, message):
        if isinstance(message["content"], str):
            return message
        limits = {"min_pixels": 84 * 84, "max_pixels": 84 * 84}
        parts = [
            {"type": "video", "video": part["url"], **limits}
            if part["type"] == "video"
            else part
            for part in message["content"]
        ]
        return {**message, "content": parts}

    def _inputs(self, messages):
        text = self.processor.apply_chat_template(messages)
        _, videos, options = process_vision_info(
            [messages], return_video_kwargs=True, return_video_metadata=True
        )
        videos, metadata = zip(*videos, strict=True)
        return self.processor(
            text=[text], videos=list(videos), video_metadata=list(metadata), **options
        )
