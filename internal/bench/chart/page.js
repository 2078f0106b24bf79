// Of each figure: what the nearest point is, by pointer and by keys, and which series are shown.
"use strict";
{
	const tip = document.createElement("div");
	tip.id = "tip";
	tip.setAttribute("role", "status");
	document.body.append(tip);
	for (const figure of document.querySelectorAll("figure")) setUp(figure);

	function setUp(figure) {
		const svg = figure.querySelector("svg");
		const entries = [...svg.querySelectorAll(".e")];
		const points = [...svg.querySelectorAll(".p")].filter((node) => node.querySelector("title")).map((node) => {
			const title = node.querySelector("title");
			const {e: x, f: y} = node.transform.baseVal[0].matrix;
			title.remove(); // or the browser would show it beside the tip
			return {node, x, y, text: title.textContent, group: node.parentNode};
		});
		let here = null;

		const shown = () => points.filter((p) => !p.group.classList.contains("off"));
		const partsOf = (number) => svg.querySelectorAll(`[data-s="${number}"]`);

		// least is the element of a list for which a function is least.
		function least(list, f) {
			let best = null, value = Infinity;
			for (const element of list) {
				const v = f(element);
				if (v < value) [best, value] = [element, v];
			}
			return best;
		}

		function light(number) {
			for (const part of svg.querySelectorAll(".on")) part.classList.remove("on");
			svg.classList.toggle("focus", number !== undefined);
			if (number !== undefined) for (const part of partsOf(number)) part.classList.add("on");
		}

		function show(point) {
			here?.node.classList.remove("here");
			here = point;
			light(point?.group.dataset.s);
			tip.textContent = point ? point.text : "";
			if (!point) return;
			point.node.classList.add("here");
			const at = new DOMPoint(point.x, point.y).matrixTransform(svg.getScreenCTM());
			const right = at.x + 14 + tip.offsetWidth > innerWidth;
			tip.style.left = Math.max(4, right ? at.x - 14 - tip.offsetWidth : at.x + 14) + "px";
			tip.style.top = Math.max(4, Math.min(at.y + 14, innerHeight - tip.offsetHeight - 4)) + "px";
		}

		function set(entry, on) {
			for (const part of partsOf(entry.dataset.s)) part.classList.toggle("off", !on);
			entry.setAttribute("aria-pressed", on);
			if (here?.group.classList.contains("off")) show(null);
		}

		const point = (event) => {
			const entry = event.target.closest(".e");
			if (entry) {
				if (here) show(null);
				light(entry.dataset.s);
				return;
			}
			const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
			// A chart of bars has no legend, and the whole row of a bar tells of it.
			const away = (p) => entries.length ? Math.hypot(p.x - x, p.y - y) : Math.abs(p.y - y);
			const nearest = least(shown(), away);
			show(nearest && away(nearest) < (entries.length ? 40 : 13) ? nearest : null);
		};
		for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, point);
		svg.addEventListener("pointerleave", (event) => {
			if (event.pointerType !== "touch") show(null); // a finger leaves at once
		});
		svg.addEventListener("blur", () => show(null));
		svg.addEventListener("focus", () => {
			if (svg.matches(":focus-visible")) show(shown()[0] ?? null);
		});
		svg.addEventListener("keydown", (event) => {
			if (event.target !== svg) return;
			const step = {ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowUp: ["y", -1], ArrowDown: ["y", 1]}[event.key];
			if (event.key === "Escape") show(null);
			if (!step) return;
			event.preventDefault();
			// Left and right go along a line, up and down across the lines at one X, or from bar to bar.
			const [axis, way] = step;
			const near = (p) => axis === "x" ? p.group === here.group : p.x === here.x || !entries.length;
			const list = here ? shown().filter(near).sort((a, b) => a[axis] - b[axis]) : shown();
			show(list[list.indexOf(here) + (here ? way : 1)] ?? here);
		});

		for (const entry of entries) {
			entry.setAttribute("role", "button");
			entry.setAttribute("tabindex", "0");
			set(entry, true);
			const toggle = () => set(entry, entry.getAttribute("aria-pressed") !== "true");
			entry.addEventListener("click", toggle);
			entry.addEventListener("keydown", (event) => {
				if (event.key !== "Enter" && event.key !== " ") return;
				event.preventDefault();
				toggle();
			});
			for (const name of ["pointerenter", "focus"]) entry.addEventListener(name, () => light(entry.dataset.s));
			for (const name of ["pointerleave", "blur"]) entry.addEventListener(name, () => light());
		}
		svg.setAttribute("role", "group");
		svg.setAttribute("tabindex", "0");
		svg.classList.add("ready");
		if (entries.length < 2) return;
		const tools = document.createElement("div");
		tools.className = "tools";
		tools.append("series:");
		for (const [name, on] of [["all", true], ["none", false]]) {
			const button = document.createElement("button");
			button.type = "button";
			button.textContent = name;
			button.addEventListener("click", () => entries.forEach((entry) => set(entry, on)));
			tools.append(button);
		}
		svg.after(tools);
	}
}
